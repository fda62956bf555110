#include "core/compile/llvm.h"

#include <absl/base/thread_annotations.h>
#include <absl/container/flat_hash_map.h>
#include <absl/synchronization/mutex.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/Analysis/TargetLibraryInfo.h>
#include <llvm/AsmParser/Parser.h>
#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/DiagnosticPrinter.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Object/ObjectFile.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/SourceMgr.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/LICM.h>
#include <llvm/Transforms/Scalar/LoopPassManager.h>
#include <llvm/Transforms/Scalar/SROA.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>

#include <memory>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/compile/llvm_symbols.h"

namespace tensord {
namespace {

// Objects are ELF everywhere: they are only ever loaded by LlvmObject.
absl::StatusOr<std::string> TripleOf(const Target& target) {
  if (target.arch == "x86-64") return "x86_64-unknown-linux-gnu";
  if (target.arch == "aarch64") return "aarch64-unknown-linux-gnu";
  return Unavailable("LLVM: architecture '{}' is unknown; x86-64 and aarch64 are known",
                     target.arch);
}

absl::StatusOr<std::unique_ptr<llvm::TargetMachine>> CreateMachine(const Target& target) {
  static const bool initialized = [] {
    llvm::InitializeAllTargetInfos();
    llvm::InitializeAllTargets();
    llvm::InitializeAllTargetMCs();
    llvm::InitializeAllAsmPrinters();
    return true;
  }();
  (void)initialized;
  TD_ASSIGN_OR_RETURN(const std::string triple, TripleOf(target));
  std::string error;
  const llvm::Target* llvm_target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (llvm_target == nullptr) return Unavailable("LLVM: {}", error);
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  std::unique_ptr<llvm::TargetMachine> machine(llvm_target->createTargetMachine(
      triple, target.cpu, target.features, options, llvm::Reloc::PIC_, llvm::CodeModel::Small,
      llvm::CodeGenOptLevel::Default));
  if (machine == nullptr) return Unavailable("LLVM: no code generator for {}", triple);
  return machine;
}

// Machines that no thread uses now: making one costs as much as compiling a small kernel.
class MachinePool {
 public:
  using Machine = std::unique_ptr<llvm::TargetMachine>;

  absl::StatusOr<Machine> Take(const std::string& key, const Target& target) {
    {
      absl::MutexLock lock(&mu_);
      std::vector<Machine>& idle = idle_[key];
      if (!idle.empty()) {
        Machine machine = std::move(idle.back());
        idle.pop_back();
        return machine;
      }
    }
    return CreateMachine(target);
  }
  void Return(const std::string& key, Machine machine) {
    absl::MutexLock lock(&mu_);
    idle_[key].push_back(std::move(machine));
  }

 private:
  absl::Mutex mu_;
  absl::flat_hash_map<std::string, std::vector<Machine>> idle_ ABSL_GUARDED_BY(mu_);
};

MachinePool& Pool() {
  static MachinePool& pool = *new MachinePool;
  return pool;
}

// Keeps LLVM's errors, which would otherwise end the process.
struct CollectErrors final : llvm::DiagnosticHandler {
  explicit CollectErrors(std::string& text) : text(text) {}
  bool handleDiagnostics(const llvm::DiagnosticInfo& info) override {
    if (info.getSeverity() != llvm::DS_Error) return true;
    llvm::raw_string_ostream stream(text);
    llvm::DiagnosticPrinterRawOStream printer(stream);
    info.print(printer);
    return true;
  }
  std::string& text;
};

// Registers for accumulators, invariants out of loops, and the clean-up in between. Vectors, tiles
// and unrolling are codegen's decisions, so nothing here makes or unmakes them.
void Optimize(llvm::Module& module, llvm::TargetMachine& machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager call_graph;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  // No library function is known: none may be recognised or introduced.
  llvm::TargetLibraryInfoImpl library(machine.getTargetTriple());
  library.disableAllFunctions();
  functions.registerPass([&] { return llvm::TargetLibraryAnalysis(library); });
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(call_graph);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, call_graph, modules);

  llvm::FunctionPassManager passes;
  passes.addPass(llvm::SROAPass(llvm::SROAOptions::PreserveCFG));
  passes.addPass(llvm::EarlyCSEPass());
  passes.addPass(llvm::InstCombinePass());
  passes.addPass(llvm::SimplifyCFGPass());
  passes.addPass(llvm::createFunctionToLoopPassAdaptor(llvm::LICMPass(llvm::LICMOptions()),
                                                       /*UseMemorySSA=*/true));
  passes.addPass(llvm::EarlyCSEPass());
  for (llvm::Function& function : module) {
    if (!function.isDeclaration()) passes.run(function, functions);
  }
}

absl::Status CheckSymbols(llvm::StringRef object) {
  auto file = llvm::object::ObjectFile::createObjectFile(llvm::MemoryBufferRef(object, "kernel"));
  if (!file) return Internal("LLVM made no object: {}", llvm::toString(file.takeError()));
  for (const llvm::object::SymbolRef& symbol : (*file)->symbols()) {
    auto flags = symbol.getFlags();
    auto name = symbol.getName();
    if (!flags || !name) return Internal("LLVM made an object with a broken symbol");
    const bool undefined = (*flags & llvm::object::SymbolRef::SF_Undefined) != 0;
    if (undefined && !name->empty() && !IsExternalSymbol({name->data(), name->size()})) {
      return Internal("the code calls '{}', which is not among the functions that it may call",
                      std::string_view(name->data(), name->size()));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> Compile(std::string_view ir_text, llvm::TargetMachine& machine,
                                    llvm::CodeGenFileType type) {
  llvm::LLVMContext context;
  std::string errors;
  context.setDiagnosticHandler(std::make_unique<CollectErrors>(errors));
  llvm::SMDiagnostic parse_error;
  const std::unique_ptr<llvm::Module> module = llvm::parseAssembly(
      llvm::MemoryBufferRef({ir_text.data(), ir_text.size()}, "kernel"), parse_error, context);
  if (module == nullptr) {
    llvm::raw_string_ostream stream(errors);
    parse_error.print(nullptr, stream, /*ShowColors=*/false);
    return InvalidArgument("LLVM can't parse the text: {}", errors);
  }
  module->setTargetTriple(machine.getTargetTriple().str());
  module->setDataLayout(machine.createDataLayout());
  llvm::raw_string_ostream verify_errors(errors);
  if (llvm::verifyModule(*module, &verify_errors)) {
    return InvalidArgument("LLVM rejects the text: {}", errors);
  }

  Optimize(*module, machine);
  llvm::SmallVector<char, 0> output;
  llvm::raw_svector_ostream stream(output);
  llvm::legacy::PassManager codegen;
  if (machine.addPassesToEmitFile(codegen, stream, nullptr, type, /*DisableVerify=*/true)) {
    return Unavailable("LLVM can't write objects for {}", machine.getTargetTriple().str());
  }
  codegen.run(*module);
  if (!errors.empty()) return InvalidArgument("LLVM: {}", errors);
  return std::string(output.begin(), output.end());
}

absl::StatusOr<std::string> CompileAs(std::string_view ir_text, const Target& target,
                                      llvm::CodeGenFileType type) {
  const std::string key = target.CacheKey();
  TD_ASSIGN_OR_RETURN(std::unique_ptr<llvm::TargetMachine> machine, Pool().Take(key, target));
  absl::StatusOr<std::string> result = Compile(ir_text, *machine, type);
  Pool().Return(key, std::move(machine));
  return result;
}

}  // namespace

absl::StatusOr<std::string> CompileLlvm(std::string_view ir_text, const Target& target) {
  TD_ASSIGN_OR_RETURN(std::string object,
                      CompileAs(ir_text, target, llvm::CodeGenFileType::ObjectFile));
  TD_RETURN_IF_ERROR(CheckSymbols(object));
  return object;
}

absl::StatusOr<std::string> LlvmAssembly(std::string_view ir_text, const Target& target) {
  return CompileAs(ir_text, target, llvm::CodeGenFileType::AssemblyFile);
}

}  // namespace tensord

#include "core/compile/llvm_loader.h"

#include <llvm/ExecutionEngine/JITLink/JITLinkMemoryManager.h>
#include <llvm/ExecutionEngine/Orc/Core.h>
#include <llvm/ExecutionEngine/Orc/ExecutorProcessControl.h>
#include <llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h>
#include <llvm/Object/ObjectFile.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/TargetParser/Triple.h>

#include <atomic>
#include <utility>

#include "core/base/status.h"
#include "core/compile/llvm_symbols.h"

namespace tensord {
namespace {

namespace orc = llvm::orc;

// One linker for the process. It lives as long as the process: objects may die after any static.
class Linker {
 public:
  static absl::StatusOr<Linker*> Get() {
    static const absl::StatusOr<Linker*>& linker = *new absl::StatusOr<Linker*>(Create());
    return linker;
  }

  // Code for another processor would link, and then crash.
  static absl::Status CheckMachine(const std::string& object) {
    auto file = llvm::object::ObjectFile::createObjectFile(llvm::MemoryBufferRef(object, "kernel"));
    if (!file) return InvalidArgument("not an object: {}", llvm::toString(file.takeError()));
    const llvm::Triple ours(llvm::sys::getProcessTriple());
    if ((*file)->isELF() && (*file)->getArch() == ours.getArch()) return absl::OkStatus();
    return InvalidArgument("an object of format {}, not for this machine",
                           std::string_view((*file)->getFileFormatName()));
  }

  // A library of its own for each object, so that kernels may have equal names.
  absl::StatusOr<orc::JITDylib*> Add(const std::string& object) {
    TD_RETURN_IF_ERROR(CheckMachine(object));
    orc::JITDylib& library = session_->createBareJITDylib(fmt::format("kernel{}", next_++));
    library.addToLinkOrder(*externals_);
    auto buffer = llvm::MemoryBuffer::getMemBufferCopy(object, library.getName());
    if (llvm::Error error = layer_->add(library, std::move(buffer))) {
      Remove(library);
      return InvalidArgument("can't link: {}", llvm::toString(std::move(error)));
    }
    return &library;
  }

  absl::StatusOr<void*> Lookup(orc::JITDylib& library, const std::string& entry) {
    auto symbol = session_->lookup({&library}, session_->intern(entry));
    if (symbol) return symbol->getAddress().toPtr<void*>();
    return InvalidArgument("can't load '{}': {}", entry, llvm::toString(symbol.takeError()));
  }

  void Remove(orc::JITDylib& library) { llvm::consumeError(session_->removeJITDylib(library)); }

 private:
  static absl::StatusOr<Linker*> Create() {
    auto control = orc::SelfExecutorProcessControl::Create();
    if (!control) return Internal("JIT: {}", llvm::toString(control.takeError()));
    auto linker = std::make_unique<Linker>();
    linker->session_ = std::make_unique<orc::ExecutionSession>(std::move(*control));
    // Errors reach the caller of Lookup; without this they would also be printed.
    linker->session_->setErrorReporter(
        [](llvm::Error error) { llvm::consumeError(std::move(error)); });
    linker->layer_ = std::make_unique<orc::ObjectLinkingLayer>(*linker->session_);
    linker->externals_ = &linker->session_->createBareJITDylib("externals");
    orc::SymbolMap symbols;
    for (const ExternalSymbol& symbol : ExternalSymbols()) {
      symbols[linker->session_->intern(std::string(symbol.name))] = {
          orc::ExecutorAddr::fromPtr(symbol.address),
          llvm::JITSymbolFlags::Exported | llvm::JITSymbolFlags::Callable};
    }
    if (llvm::Error error = linker->externals_->define(orc::absoluteSymbols(std::move(symbols)))) {
      return Internal("JIT: {}", llvm::toString(std::move(error)));
    }
    return linker.release();
  }

  std::unique_ptr<orc::ExecutionSession> session_;
  std::unique_ptr<orc::ObjectLinkingLayer> layer_;
  orc::JITDylib* externals_ = nullptr;
  std::atomic<uint64_t> next_{0};  // relaxed would do: only uniqueness matters
};

}  // namespace

struct LlvmObject::State {
  Linker* linker;
  orc::JITDylib* library;
  void* entry;
};

absl::StatusOr<std::unique_ptr<LlvmObject>> LlvmObject::Load(const std::string& object,
                                                             const std::string& entry) {
  TD_ASSIGN_OR_RETURN(Linker* const linker, Linker::Get());
  TD_ASSIGN_OR_RETURN(orc::JITDylib* const library, linker->Add(object));
  absl::StatusOr<void*> address = linker->Lookup(*library, entry);
  if (!address.ok()) {
    linker->Remove(*library);
    return address.status();
  }
  return std::unique_ptr<LlvmObject>(
      new LlvmObject(std::make_unique<State>(State{linker, library, *address})));
}

LlvmObject::LlvmObject(std::unique_ptr<State> state) : state_(std::move(state)) {}
LlvmObject::~LlvmObject() { state_->linker->Remove(*state_->library); }

void* LlvmObject::entry() const { return state_->entry; }

}  // namespace tensord

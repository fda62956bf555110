"""Names of torch and of torch.Tensor that tensord leaves out, by the reason why. docs/operations.md lists them.

    reason: the names, in shell patterns
"""

LEFT_OUT = {
    "complex numbers": """
        cdouble cfloat chalf complex complex* bcomplex32 conj_physical_ imag polar view_as_complex view_as_real""",
    "sparse tensors": """
        sparse_* to_sparse* *coalesce* *col_indices row_indices crow_indices indices values to_dense dense_dim dsmm hsmm hspmm
        smm spmm saddmm sspaddmm resize_as_sparse_""",
    "quantised tensors, and dtypes below 8 bits or of bits alone": """
        q_* qint* quint* qscheme quantize_* quantized_* dequantize int_repr fake_quantize_* fused_moving_avg_obs_fake_quant
        choose_qparams_optimized fbgemm_* empty_quantized QInt* QUInt* bit bits* int1 int2 int3 int4 int5 int6 int7 uint1 uint2
        uint3 uint4 uint5 uint6 uint7 float4_e2m1fn_x2 float8_e8m0fnu""",
    "the constructors and storages of old PyTorch: tensor(data, dtype=..) makes tensors, and memory is the daemon's": """
        *Storage *Tensor StorageBase storage storage_type untyped_storage const_data_ptr new new_empty_strided
        set_default_tensor_type from_file share_memory_ is_set_to""",
    "strides and memory formats: every tensor is row-major to its reader, views keep no strides, and nothing is copied "
    "unless it is written": """
        *_copy as_strided_ as_strided_scatter empty_permuted empty_strided layout memory_format dim_order slice_inverse
        unsafe_chunk unsafe_split unsafe_split_with_sizes resize resize_as to_mkldnn to_padded_tensor""",
    "TorchScript, its types and its graphs: jit, compile and function are what there is": """
        AliasDb Argument ArgumentSpec AggregationType AnyType AwaitType Benchmark* Block BoolType CallStack Capsule ClassType
        Code CompilationUnit CompleteArgumentSpec ComplexType ConcreteModuleType* DeepCopyMemoTable *erializationStorageContext
        DeviceObjType DictType EnumType ErrorReport ExecutionPlan FileCheck FloatType
        FunctionSchema Future FutureType Gradient Graph GraphExecutorState IODescriptor InferredType IntType InterfaceType
        JITException ListType LiteScriptModule LockingLogger LoggerBase Node NoneType NoopLogger NumberType OperatorInfo
        OptionalType PyObjectType PyTorchFile* RRefType Script* StaticModule StringType SymBoolType
        SymIntType Tag TensorType ThroughputBenchmark TracingState TupleType Type UnionType Use Value fork wait import_ir_module*
        merge_type_from_type_comment parse_* unify_type_list export""",
    "what PyTorch uses itself: its public form is a layer, or in nn.functional": """
        AVG SUM Dispatch* DisableTorchFunction* ExcludeDispatchKeyGuard affine_grid_generator batch_norm_* classproperty
        conv_tbc convolution cpp embedding_renorm_ frobenius_norm get_file_path get_device_module grid_sampler*
        gru gru_cell lstm lstm_cell rnn_* hash_tensor has_* init_num_threads max_pool1d_with_indices native_* norm_except_dim
        nuclear_norm prepare_multiprocessing_environment profiler_* segment_reduce sym_constrain_range* sym_fresh_size
        thread_safe_generator typename ParameterDict ModuleDict BufferDict as_subclass module_load grad_dtype index name
        output_nr reinforce volatile""",
    "kinds of devices and libraries that no backend drives": """
        cudnn_* miopen_* mkldnn_* is_vulkan_available is_vulkan is_xla is_ipu is_maia is_mtia ipu mtia xpu Stream
        StreamObjType Event AcceleratorError record_stream is_distributed OutOfMemoryError FatalError""",
    "settings of PyTorch's threads, libraries and checks: those of the daemon are its flags, and results do not depend on "
    "the number of threads": """
        *_num_threads *_num_interop_threads *deterministic* get_float32_matmul_precision set_float32_matmul_precision
        set_flush_denormal *warn_always* compiled_with_cxx11_abi""",
    "automatic casts, and the scaling of losses for them: cast by bfloat16() and float()": """
        *autocast* GradScaler""",
    "expressions over sizes as PyTorch writes them: tensord.Variable and Python's operators": """
        SymBool SymFloat sym_float sym_int sym_ite sym_max sym_min sym_not sym_sqrt sym_sum""",
    "what PyTorch has only to say that it is gone: see linalg": """
        eig lstsq matrix_rank solve symeig""",
    "other names of what is there: autograd.detect_anomaly, inference_mode, from_dlpack, where and while_loop for cond, and "
    "dropout and its kin, which give another tensor": """
        *anomaly* is_inference_mode_enabled to_dlpack cond *dropout_ binomial""",
}

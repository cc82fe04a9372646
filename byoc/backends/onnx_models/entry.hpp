// The functions of a runtime that the functions of a model call.
OPINFO_LINKAGE int OPINFO_RUNTIME(run)(const Region* region, const TVMFFIAny* args, int32_t count) {
  return run(*region, args, count);
}
// Takes the models, and lets the runtime open them.
OPINFO_LINKAGE int OPINFO_RUNTIME(load)(const TVMFFIAny* args, TVMFFIAny* result) {
  if (int code = models.load(args, result)) return code;
  return begin();
}

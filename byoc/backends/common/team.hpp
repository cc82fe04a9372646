// In code whose loops run on GNU OpenMP's threads: tells other code of the same library that they do.
// A weak definition, as several files may have it.
extern "C" {
__attribute__((weak, visibility("hidden"))) char opinfo_has_team = 1;
}

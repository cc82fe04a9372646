// What is remembered of measured choices for other processes: a text by all that it depends on, in a
// file each. It follows runtime.hpp.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

namespace opinfo_nvidia {
namespace {

// A number of the environment; `usual` if there is none.
inline double from_environment(const char* name, double usual) {
  const char* text = std::getenv(name);
  char* end = nullptr;
  const double value = text != nullptr ? std::strtod(text, &end) : usual;
  return text != nullptr && (end == text || *end != 0 || !(value >= 0)) ? usual : value;
}

// A device, in words.
inline const std::string& device_words(int device) {
  static std::mutex mutex;
  static std::map<int, std::string> all;
  std::lock_guard<std::mutex> lock(mutex);
  std::string& words = all[device];
  if (!words.empty()) return words;
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  std::ostringstream out;
  out << properties.name << " sm_" << properties.major << properties.minor << " x"
      << properties.multiProcessorCount;
  return words = out.str();
}

// Texts of one line in a folder of the user's cache, by keys of one line.
class KeptTexts {
 public:
  // `instead`: what is done without a file that cannot be used.
  KeptTexts(const char* name, const char* instead) : name_(name), instead_(instead) {}

  // The text of a key's file. `known`: it is of this key, and not of another one in the same file.
  struct Entry {
    bool exists = false, known = false;
    std::string text;
  };

  Entry read(const std::string& key) const {
    const std::string path = file(key, false);
    std::ifstream in(path);
    if (path.empty() || !in) return {};
    std::string written;
    Entry out;
    out.exists = true;
    std::getline(in, written);
    std::getline(in, out.text);
    out.known = written == key;
    return out;
  }

  void write(const std::string& key, const std::string& text) const {
    const std::string path = file(key, true);
    if (path.empty()) return;
    const std::string part = path + "." + std::to_string(getpid());
    std::ofstream out(part);
    out << key << "\n" << text << "\n";
    out.close();
    if (!out || std::rename(part.c_str(), path.c_str()) != 0) std::remove(part.c_str());
  }

  void say_damaged(const std::string& key) const { warn(file(key, false), "is damaged"); }

  // Empty without a folder that only this user writes to.
  std::string folder(bool create) const {
    const char *chosen = std::getenv("OPINFO_CACHE"), *base = std::getenv("XDG_CACHE_HOME"),
               *home = std::getenv("HOME");
    std::string root = chosen != nullptr ? chosen : "";
    if (root.empty()) {
      root = base != nullptr && base[0] == '/' ? base : home != nullptr ? home : "";
      if (root.empty()) return "";
      if (base == nullptr || base[0] != '/') root += "/.cache";
      if (create && !made(root)) return "";
      root += "/opinfo";
    }
    const std::string folder = root + "/" + name_;
    if (create && !(made(root) && made(folder))) return "";
    struct stat info {};
    if (stat(folder.c_str(), &info) != 0) return "";
    if (info.st_uid != geteuid() || (info.st_mode & 022) != 0) {
      warn(folder, "can be written by other users");
      return "";
    }
    return folder;
  }

 private:
  void warn(const std::string& path, const char* what) const {
    std::fprintf(stderr, "opinfo: %s %s; %s\n", path.c_str(), what, instead_);
  }

  static bool made(const std::string& folder) {
    return mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST;
  }

  std::string file(const std::string& key, bool create) const {
    const std::string within = folder(create);
    if (within.empty()) return "";
    uint64_t hash = 14695981039346656037ull;  // FNV-1a
    for (unsigned char c : key) hash = (hash ^ c) * 1099511628211ull;
    char name[32];
    std::snprintf(name, sizeof(name), "/%016llx", static_cast<unsigned long long>(hash));
    return within + name;
  }

  const char *name_, *instead_;
};

// While it lives, other processes with the same cache time nothing, whichever library they choose for:
// they would slow down each other.
class Alone {
 public:
  explicit Alone(const KeptTexts& texts) {
    const std::string folder = texts.folder(true);
    if (folder.empty()) return;
    const std::string path = folder + "/../timing.lock";
    file_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file_ >= 0) flock(file_, LOCK_EX);
  }
  Alone(const Alone&) = delete;
  ~Alone() {
    if (file_ >= 0) close(file_);
  }

 private:
  int file_ = -1;
};

}  // namespace
}  // namespace opinfo_nvidia

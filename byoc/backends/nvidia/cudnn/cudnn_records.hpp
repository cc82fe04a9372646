// What is remembered of the fastest plans. It follows cudnn_graph.hpp.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

namespace opinfo_nvidia {
namespace {

// An engine's number and the values of its knobs: enough to make the plan again.
struct Choice {
  int64_t engine = -1;
  std::map<int64_t, int64_t> knobs;
};

// The fastest way to run something: a form of it, and an engine for each graph of that form.
struct Record {
  int form = -1;
  std::vector<Choice> choices;

  std::string text() const {
    std::ostringstream out;
    out << form;
    for (const Choice& c : choices) {
      out << " " << c.engine << " " << c.knobs.size();
      for (const auto& [kind, value] : c.knobs) out << " " << kind << " " << value;
    }
    return out.str() + " end";
  }

  static Record read(const std::string& text) {
    std::istringstream in(text);
    Record out;
    std::string word;
    if (!(in >> out.form) || out.form < 0) return Record{};
    while (in >> word && word != "end") {
      Choice c;
      size_t count = 0;
      if (!(std::istringstream(word) >> c.engine) || !(in >> count) || count > 1000) return {};
      for (int64_t kind = 0, value = 0; count > 0; --count) {
        if (!(in >> kind >> value)) return Record{};
        c.knobs[kind] = value;
      }
      out.choices.push_back(c);
    }
    return word == "end" ? out : Record{};
  }
};

// Records by a text that says all that they depend on; also in a file each, for other processes.
class Records {
 public:
  static Records& all() {
    static Records records;
    return records;
  }

  // `form` is negative if there is none.
  Record find(const std::string& key) {
    std::lock_guard<std::mutex> lock(mutex_);
    auto [at, added] = known_.emplace(key, Record{});
    if (added) at->second = load(key);
    return at->second;
  }

  void put(const std::string& key, const Record& record) {
    std::lock_guard<std::mutex> lock(mutex_);
    known_[key] = record;
    const std::string path = file(key, true);
    if (path.empty()) return;
    const std::string part = path + "." + std::to_string(getpid());
    std::ofstream out(part);
    out << key << "\n" << record.text() << "\n";
    out.close();
    if (!out || std::rename(part.c_str(), path.c_str()) != 0) std::remove(part.c_str());
  }

 private:
  static void warn(const std::string& path, const char* what) {
    std::fprintf(stderr, "opinfo: %s %s; cuDNN's engines are timed again\n", path.c_str(), what);
  }

  Record load(const std::string& key) const {
    const std::string path = file(key, false);
    std::ifstream in(path);
    if (path.empty() || !in) return Record{};
    std::string told, text;
    std::getline(in, told);
    std::getline(in, text);
    const Record record = Record::read(text);
    if (record.form >= 0 && told == key) return record;
    if (record.form < 0) warn(path, "is damaged");
    return Record{};
  }

  static bool made(const std::string& folder) {
    return mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST;
  }

  static std::string file(const std::string& key, bool create) {
    const std::string within = folder(create);
    if (within.empty()) return "";
    uint64_t hash = 14695981039346656037ull;  // FNV-1a
    for (unsigned char c : key) hash = (hash ^ c) * 1099511628211ull;
    char name[32];
    std::snprintf(name, sizeof(name), "/%016llx", static_cast<unsigned long long>(hash));
    return within + name;
  }

 public:
  // Empty without a folder that only this user writes to.
  static std::string folder(bool create) {
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
    const std::string folder = root + "/cudnn";
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
  std::mutex mutex_;
  std::map<std::string, Record> known_;
};

// While it lives, other processes that choose plans time nothing: they would slow down each other.
class Alone {
 public:
  Alone() {
    const std::string folder = Records::folder(true);
    if (folder.empty()) return;
    file_ = open((folder + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
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

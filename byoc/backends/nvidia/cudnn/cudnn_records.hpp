// What is remembered of the fastest plans. It follows cudnn_graph.hpp.
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

inline const KeptTexts& kept_plans() {
  static const KeptTexts texts("cudnn", "cuDNN's engines are timed again");
  return texts;
}

// Records by a text that says all that they depend on; also kept for other processes.
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
    kept_plans().write(key, record.text());
  }

 private:
  static Record load(const std::string& key) {
    const KeptTexts::Entry entry = kept_plans().read(key);
    if (!entry.exists) return Record{};
    const Record record = Record::read(entry.text);
    if (record.form < 0) kept_plans().say_damaged(key);
    return entry.known ? record : Record{};
  }

  std::mutex mutex_;
  std::map<std::string, Record> known_;
};

}  // namespace
}  // namespace opinfo_nvidia

// Hazard pointers: a thread announces the snapshot that it reads, and nobody frees it meanwhile. It
// follows snapshot.hpp.
namespace opinfo_jit {
namespace {

// A hazard pointer: the snapshot that a thread reads. Slots are reused, never freed.
struct alignas(64) Hazard {
  std::atomic<const Snapshot*> reads{nullptr};
  std::atomic<bool> taken{true};
  Hazard* next = nullptr;
};
std::atomic<Hazard*> hazards{nullptr};

// Takes a slot at a thread's first call, and releases it when the thread ends.
struct SlotOwner {
  Hazard* slot;
  SlotOwner() {
    for (slot = hazards.load(); slot; slot = slot->next) {
      bool free = false;
      if (slot->taken.compare_exchange_strong(free, true)) return;
    }
    slot = new Hazard;
    slot->next = hazards.load();
    while (!hazards.compare_exchange_weak(slot->next, slot)) {
    }
  }
  ~SlotOwner();
};
// A plain pointer beside it, because reading it needs no initialisation guard. The initial-exec TLS
// model would also save a call, but a process has room for it in a few dozen libraries only.
thread_local Hazard* slot = nullptr;

SlotOwner::~SlotOwner() {
  slot->reads.store(nullptr);
  slot->taken.store(false);
  opinfo_jit::slot = nullptr;
}

__attribute__((noinline)) Hazard* first_slot() {
  static thread_local SlotOwner owner;
  return slot = owner.slot;
}
inline Hazard* my_slot() { return __builtin_expect(slot != nullptr, 1) ? slot : first_slot(); }

bool is_read(const Snapshot* s) {
  for (Hazard* h = hazards.load(); h; h = h->next)
    if (h->reads.load() == s) return true;
  return false;
}

}  // namespace
}  // namespace opinfo_jit

// The flight recorder: what each thread is calling, in a file that is mapped into memory.
//
// A store into a shared mapping is the kernel's business as soon as it is done, so what was stored outlives the
// process however it ends (not the machine). Each thread has a slot with a stack of the calls it is in, and arguments;
// a ring keeps the last calls begun and ended in all threads. `docs/trace.md` describes the file; its reader is
// `kernelscope.probe.flight_file`.

#pragma once

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <new>

namespace kernelscope::flight {

constexpr uint32_t VERSION = 1, SLOTS = 64, FRAMES = 6, ARGUMENTS = 24, RING = 4096, PROGRAMS = 1024, DIMENSIONS = 8;

enum State : uint32_t { EMPTY = 0, RUNNING = 1, DONE = 2, RAISED = 3 };
enum Kind : uint8_t { NOTHING = 0, TENSOR = 1, INTEGER = 2, REAL = 3, BOOLEAN = 4, OTHER = 5 };

struct Header {
  char magic[8];
  uint32_t version, slots, frames, arguments, ring, programs;
  uint32_t process, rank;
  uint64_t opened_ns;      // since 1970
  uint64_t process_start;  // as the system counts it: tells a process from a later one with its number
  std::atomic<uint64_t> next;  // entries written to the ring so far
  std::atomic<uint32_t> ended;   // 1: closed in good order
  std::atomic<uint32_t> without; // calls of threads that found no slot
  std::atomic<uint32_t> known;   // programs noted
  char pad[4096 - 76];
};

struct ProgramEntry {
  char file[128];  // below the folder
};

struct Argument {
  uint64_t value;  // a tensor's address; an integer; a double's bits
  uint16_t operand, part;  // part: its place in a list, 0xffff outside of lists
  uint8_t kind, dtype, dimensions, pad;
  int64_t size[DIMENSIONS];
};

struct Frame {
  std::atomic<uint32_t> state;
  uint32_t call;
  uint64_t program, step;
  uint64_t begun_ns, ended_ns;
  uint32_t given, kept;  // arguments
  char pad[16];
  Argument arguments[ARGUMENTS];
};

struct Slot {
  std::atomic<uint32_t> thread;  // the system's number
  std::atomic<uint32_t> depth;   // calls it is in
  std::atomic<uint32_t> inside;  // programs it is in
  char name[16];
  char pad[36];
  Frame frames[FRAMES];
};

struct Entry {
  std::atomic<uint64_t> sequence;  // its number from 1; written last
  uint64_t time_ns, program, step;
  uint32_t call, state, slot, pad;
};

struct File {
  Header header;
  ProgramEntry programs[PROGRAMS];
  Slot slots[SLOTS];
  Entry ring[RING];
};

static_assert(sizeof(Header) == 4096 && sizeof(Argument) == 80 && sizeof(Frame) == 64 + ARGUMENTS * 80 &&
              sizeof(Slot) == 64 + FRAMES * sizeof(Frame) && sizeof(Entry) == 48);

inline uint64_t now_ns() {
  timespec time;
  clock_gettime(CLOCK_REALTIME, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1000000000ULL + static_cast<uint64_t>(time.tv_nsec);
}

class Recorder {
 public:
  // Makes the file and maps it; 0, or the error's number. Space is taken at once: a full disk is an error here, not
  // a signal in the middle of a call.
  int open(const char* path, uint32_t process, uint64_t process_start, uint32_t rank) {
    const int descriptor = ::open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (descriptor < 0) return errno;
    int error = posix_fallocate(descriptor, 0, sizeof(File));
    void* mapped = MAP_FAILED;
    if (error == 0) {
      mapped = mmap(nullptr, sizeof(File), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
      if (mapped == MAP_FAILED) error = errno;
    }
    ::close(descriptor);
    if (error != 0) {
      ::unlink(path);
      return error;
    }
    File* file = static_cast<File*>(mapped);
    Header& header = file->header;
    header.version = VERSION, header.slots = SLOTS, header.frames = FRAMES, header.arguments = ARGUMENTS;
    header.ring = RING, header.programs = PROGRAMS;
    header.process = process, header.rank = rank, header.process_start = process_start, header.opened_ns = now_ns();
    if (file_ != nullptr) {  // in a forked child: the programs keep their numbers; nobody holds the lock
      new (&lock_) std::mutex;
      std::memcpy(file->programs, file_->programs, sizeof file->programs);
      header.known.store(file_->header.known.load());
    }
    std::memcpy(header.magic, "KSFLIGHT", 8);
    file_ = file;
    serial_ = fresh_serial();
    return 0;
  }

  // Calls begun from now on are not recorded; the mapping stays, since a thread may be storing.
  void close() {
    if (file_ != nullptr) file_->header.ended.store(1, std::memory_order_release);
  }

  // Notes a program, by its file's name below the folder; its number.
  uint64_t add_program(const char* name) {
    const uint32_t number = file_->header.known.fetch_add(1);
    if (number < PROGRAMS) std::strncpy(file_->programs[number].file, name, sizeof(ProgramEntry) - 1);
    return number;
  }

  // The calling thread's slot; null where all are taken.
  Slot* slot() {
    thread_local uint64_t serial = 0;
    thread_local Slot* mine = nullptr;
    if (serial != serial_) {
      mine = find_slot();
      serial = mine == nullptr ? 0 : serial_;
    }
    return mine;
  }

  // The frame that a call is about to fill in; null where none is kept. `publish` makes it known.
  Frame* begin(Slot* slot) {
    const uint32_t depth = slot->depth.load(std::memory_order_relaxed);
    if (depth >= FRAMES) return nullptr;
    Frame* frame = &slot->frames[depth];
    frame->state.store(EMPTY, std::memory_order_release);
    frame->given = frame->kept = 0;
    frame->ended_ns = 0;
    return frame;
  }

  void publish(Slot* slot, Frame* frame, uint64_t program, uint64_t step, uint32_t call) {
    const uint64_t time = now_ns();
    if (frame != nullptr) {
      frame->program = program, frame->step = step, frame->call = call, frame->begun_ns = time;
      frame->state.store(RUNNING, std::memory_order_release);
    }
    slot->depth.fetch_add(1, std::memory_order_release);
    remember(slot, time, program, step, call, RUNNING);
  }

  void end(Slot* slot, uint64_t program, uint64_t step, uint32_t call) {
    const uint64_t time = now_ns();
    const uint32_t depth = slot->depth.load(std::memory_order_relaxed);
    if (depth == 0) return;
    if (depth <= FRAMES) {
      Frame* frame = &slot->frames[depth - 1];
      frame->ended_ns = time;
      frame->state.store(DONE, std::memory_order_release);
    }
    slot->depth.store(depth - 1, std::memory_order_release);
    remember(slot, time, program, step, call, DONE);
  }

  // The calls above `depth` were left by an exception.
  void unwind(Slot* slot, uint32_t depth) {
    for (uint32_t at = slot->depth.load(); at > depth; --at) {
      if (at > FRAMES) continue;
      Frame* frame = &slot->frames[at - 1];
      frame->ended_ns = now_ns();
      frame->state.store(RAISED, std::memory_order_release);
      remember(slot, frame->ended_ns, frame->program, frame->step, frame->call, RAISED);
    }
    slot->depth.store(depth, std::memory_order_release);
  }

  void count_without() { file_->header.without.fetch_add(1, std::memory_order_relaxed); }

 private:
  static uint64_t fresh_serial() {
    static std::atomic<uint64_t> last{0};
    return ++last;
  }

  void remember(Slot* slot, uint64_t time, uint64_t program, uint64_t step, uint32_t call, State state) {
    const uint64_t number = file_->header.next.fetch_add(1, std::memory_order_relaxed);
    Entry& entry = file_->ring[number % RING];
    entry.sequence.store(0, std::memory_order_release);
    entry.time_ns = time, entry.program = program, entry.step = step, entry.call = call, entry.state = state;
    entry.slot = static_cast<uint32_t>(slot - file_->slots);
    entry.sequence.store(number + 1, std::memory_order_release);
  }

  Slot* find_slot() {
    const uint32_t thread = static_cast<uint32_t>(syscall(SYS_gettid));
    const std::lock_guard<std::mutex> guard(lock_);
    Slot* best = nullptr;
    for (Slot& slot : file_->slots) {
      const uint32_t owner = slot.thread.load();
      if (owner == thread) return &slot;
      const bool idle = slot.depth.load() == 0 && slot.inside.load() == 0;
      // A thread that ended leaves its slot behind: one that is free is better than that, the oldest is better still.
      if (idle && (best == nullptr || last_ns(slot) < last_ns(*best))) best = &slot;
    }
    if (best == nullptr) return nullptr;
    best->thread.store(thread);
    pthread_getname_np(pthread_self(), best->name, sizeof best->name);
    for (Frame& frame : best->frames) frame.state.store(EMPTY);
    return best;
  }

  static uint64_t last_ns(const Slot& slot) { return slot.thread.load() == 0 ? 0 : slot.frames[0].begun_ns + 1; }

  File* file_ = nullptr;
  uint64_t serial_ = 0;
  std::mutex lock_;
};

}  // namespace kernelscope::flight

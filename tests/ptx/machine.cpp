// Runs the instructions of PTX, a thread at a time, and reports what a GPU would do wrongly without a word.
//
// Threads take turns in a random order: each runs until it must wait or has used an atomic word. Two accesses to a
// word of which one writes must be ordered, by barriers or by a release that an acquire has read, or both be atomic;
// otherwise this is a race, whatever the order of this run was, unless both write the same value (vector clocks:
// Flanagan and Freund, FastTrack, PLDI 2009). Without races nothing depends on when a GPU's caches
// show a store (the PTX manual, memory consistency model).
#include <algorithm>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <vector>

namespace {

using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using s32 = int32_t;
using s64 = int64_t;

constexpr int OPERANDS = 14;         // those of a product of a warp; the address of a memory access is number 4
constexpr u32 NOBODY = 0xffffffff;   // a thread's number is its block's << 10 | its own
constexpr u32 ATOMIC = 0x80000000;   // of a moment: the access was atomic
constexpr int TURN = 4096;           // instructions after which a thread lets others run
constexpr u64 MOST_INSTRUCTIONS = u64(1) << 32;

struct Thread;
struct Region;

struct Instruction {
    void (*run)(Thread&, const Instruction&) = nullptr;
    s32 guard = -1, negated = 0, v[OPERANDS] = {};
    s64 offset = 0;
    s32 place = 0;
    mutable const Region* region = nullptr;  // where its last access in this launch went
    mutable u32 launch = 0;
};

// ------------------------------------------------------------------ what a thread knows of others

using Moments = std::vector<u32>;  // of each thread of a block: all that it did until then
using View = std::map<u32, std::shared_ptr<const Moments>>;  // of the blocks of which something is known
using Seen = std::shared_ptr<const View>;

std::shared_ptr<const Moments> later(const std::shared_ptr<const Moments>& a, const std::shared_ptr<const Moments>& b) {
    bool first = true, second = true;
    for (size_t i = 0; i < a->size(); ++i) {
        first &= (*a)[i] >= (*b)[i];
        second &= (*b)[i] >= (*a)[i];
    }
    if (first || second) return first ? a : b;
    auto both = std::make_shared<Moments>(*a);
    for (size_t i = 0; i < a->size(); ++i) (*both)[i] = std::max((*a)[i], (*b)[i]);
    return both;
}

Seen joined(const Seen& a, const Seen& b) {
    if (!b || a == b) return a;
    if (!a) return b;
    auto both = std::make_shared<View>(*a);
    for (auto& [block, moments] : *b) {
        auto& mine = (*both)[block];
        mine = !mine ? moments : mine == moments ? mine : later(mine, moments);
    }
    return both;
}

// ------------------------------------------------------------------ memory

struct Cell {  // two bytes: who wrote and read them last in this launch
    u32 launch = 0, writer = NOBODY, written = 0, place = 0, reader[2] = {NOBODY, NOBODY}, read[2] = {0, 0};
};

struct Region {  // an array of this launch: where the program finds it, its memory, and who used that
    u64 start, end;
    unsigned char* memory;
    Cell* cells;
};

struct Warp {
    std::vector<Thread*> waiting;
    int alive = 0;
};

struct Block {
    u32 number, at[3];
    std::vector<Thread> threads;
    std::vector<Warp> warps;
    std::vector<u64> registers;
    std::vector<unsigned char> shared;
    std::vector<Cell> cells;
    std::vector<Thread*> waiting;
    int alive = 0;
};

struct Thread {
    u64* r = nullptr;
    s32 pc = 0;
    u32 id = 0, now = 1;
    bool running = false;
    Block* block = nullptr;
    Warp* warp = nullptr;
    Seen seen, acquired;  // `acquired`: the last message that became part of `seen`
    const Moments* own = nullptr;
    u32 lane() const { return id & 31; }
    u32 local() const { return id & 1023; }
};

struct Failure {
    std::string what;
    Thread* thread;
    s32 place, other;
};

std::map<u64, u64> allocated;  // start to end
std::map<u64, std::unique_ptr<Cell, decltype(&free)>> cells_of;  // of what is allocated
std::vector<Region> regions;
std::unordered_map<const unsigned char*, Seen> messages;  // what the releases of an atomic word carry
u64 random_state = 1, instructions = 0, spins = 0, alive = 0;
u32 launch_number = 0;
bool at_random = false;
std::vector<Thread*> ready;
const unsigned char* parameters = nullptr;

u64 draw() {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    return random_state ^= random_state << 17;
}

[[noreturn]] void fail(Thread& t, const Instruction& i, const std::string& what, s32 other = -1) {
    throw Failure{what, &t, i.place, other};
}

void look(Thread& t, Seen seen) {
    t.seen = std::move(seen);
    t.own = nullptr;
    if (t.seen)
        if (auto found = t.seen->find(t.id >> 10); found != t.seen->end()) t.own = found->second.get();
}

bool known(const Thread& t, u32 other, u32 moment) {
    if (other == t.id) return true;
    moment &= ~ATOMIC;
    if (other >> 10 == t.id >> 10) return t.own && (*t.own)[other & 1023] >= moment;
    if (!t.seen) return false;
    auto found = t.seen->find(other >> 10);
    return found != t.seen->end() && (*found->second)[other & 1023] >= moment;
}

void touch(Thread& t, const Instruction& i, Cell& cell, bool writes, bool atomic, bool shared, bool same = false) {
    if (cell.launch != launch_number) cell = Cell{launch_number};
    if (shared && !writes && cell.writer == NOBODY) fail(t, i, "reads shared memory that nobody wrote");
    auto ordered = [&](u32 other, u32 moment) {
        return other == NOBODY || (atomic && (moment & ATOMIC)) || known(t, other, moment);
    };
    if (!same && !ordered(cell.writer, cell.written))
        fail(t, i, writes ? "a race: writes where another thread writes" : "a race: reads what another thread writes",
             cell.place);
    u32 moment = t.now | (atomic ? ATOMIC : 0);
    if (writes) {
        for (int k = 0; k < 2; ++k)
            if (!ordered(cell.reader[k], cell.read[k])) fail(t, i, "a race: writes what another thread reads");
        cell.writer = t.id, cell.written = moment, cell.place = i.place;
        cell.reader[0] = cell.reader[1] = NOBODY;
        return;
    }
    // Two readers are kept: a third takes the place of one that is known to have read before, or of any.
    int k = cell.reader[0] == t.id ? 0 : cell.reader[1] == t.id ? 1 : known(t, cell.reader[0], cell.read[0]) ? 0
          : known(t, cell.reader[1], cell.read[1]) ? 1 : cell.reader[0] == NOBODY ? 0 : cell.reader[1] == NOBODY ? 1 : draw() & 1;
    cell.reader[k] = t.id, cell.read[k] = moment;
}

// `values`: those to be written, so that two threads may write the same.
unsigned char* global(Thread& t, const Instruction& i, u64 address, int size, bool writes, bool atomic = false,
                      const void* values = nullptr) {
    if (address % size) fail(t, i, "an address that is not a multiple of " + std::to_string(size));
    if (i.launch != launch_number || address < i.region->start || address + size > i.region->end) {
        auto found = std::find_if(regions.begin(), regions.end(), [&](const Region& r) {
            return r.start <= address && address + size <= r.end;
        });
        if (found == regions.end()) fail(t, i, writes ? "writes outside of every array" : "reads outside of every array");
        i.region = &*found, i.launch = launch_number;
    }
    Cell* cells = i.region->cells;
    u64 from = address - i.region->start;
    bool same = values && !memcmp(i.region->memory + from, values, size);
    for (u64 k = from / 2; k <= (from + size - 1) / 2; ++k) touch(t, i, cells[k], writes, atomic, false, same);
    if (writes) spins = 0;
    return i.region->memory + from;
}

unsigned char* shared(Thread& t, const Instruction& i, u64 address, int size, bool writes) {
    Block& block = *t.block;
    if (address % size) fail(t, i, "an address that is not a multiple of " + std::to_string(size));
    if (address + size > block.shared.size()) fail(t, i, "outside of the block's shared memory");
    for (u64 k = address / 2; k <= (address + size - 1) / 2; ++k) touch(t, i, block.cells[k], writes, false, true);
    return block.shared.data() + address;
}

// ------------------------------------------------------------------ waiting

void wake(Thread* t) { ready.push_back(t); }

void meet(std::vector<Thread*>& threads) {  // a barrier of these: each knows what all did before it
    std::vector<Seen> views;
    for (Thread* t : threads)
        if (t->seen && std::find(views.begin(), views.end(), t->seen) == views.end()) views.push_back(t->seen);
    Seen all;
    for (auto& view : views) all = joined(all, view);
    auto both = all ? std::make_shared<View>(*all) : std::make_shared<View>();
    u32 block = threads[0]->block->number;
    auto& known_before = (*both)[block];
    size_t count = threads[0]->block->threads.size();
    auto moments = known_before ? std::make_shared<Moments>(*known_before) : std::make_shared<Moments>(count);
    for (Thread* t : threads) (*moments)[t->local()] = t->now++;
    known_before = moments;
    for (Thread* t : threads) look(*t, both);
}

void open_block(Block& block, const Instruction& i) {
    if (int(block.waiting.size()) < block.alive || block.waiting.empty()) return;
    if (block.waiting.size() < block.threads.size()) fail(*block.waiting[0], i, "a barrier that threads which have ended never reach");
    std::vector<s32> at(block.warps.size(), -1);
    for (Thread* t : block.waiting) {
        s32& pc = at[t->local() / 32];
        if (pc >= 0 && pc != t->pc) fail(*t, i, "threads of a warp wait at different barriers");
        pc = t->pc;
    }
    meet(block.waiting);
    for (Thread* t : block.waiting) wake(t);
    block.waiting.clear();
    spins = 0;
}

void block_barrier(Thread& t, const Instruction& i) {
    t.running = false;
    t.block->waiting.push_back(&t);
    open_block(*t.block, i);
}

// Let a thread wait until its warp is there, then do `all` on the lanes. Its mask must name the whole warp.
template <class F> void gather(Thread& t, const Instruction& i, u32 mask, bool same_place, bool whole, F all) {
    if (mask != 0xffffffff) fail(t, i, "an operation of a warp with a mask is not simulated");
    Warp& warp = *t.warp;
    t.running = false;
    warp.waiting.push_back(&t);
    for (Thread* other : warp.waiting)
        if (same_place && other->pc != t.pc) fail(t, i, "threads of a warp are not at the same instruction");
    if (int(warp.waiting.size()) < warp.alive) return;
    if (warp.alive < 32 && whole) fail(t, i, "an operation of a warp that is not whole");
    Thread* lanes[32] = {};
    for (Thread* other : warp.waiting) lanes[other->lane()] = other;
    all(lanes);
    if (at_random)
        for (size_t n = warp.waiting.size(); n > 1; --n) std::swap(warp.waiting[n - 1], warp.waiting[draw() % n]);
    for (Thread* other : warp.waiting) wake(other);
    warp.waiting.clear();
}

void yield(Thread& t) {
    t.running = false;
    wake(&t);
}

void spin(Thread& t, const Instruction& i) {
    if (++spins > 64 * alive + 20000) fail(t, i, "hangs: waits for a word that nobody writes");
    yield(t);
}

// ------------------------------------------------------------------ instructions

template <class T> T get(const Thread& t, s32 slot) {
    if constexpr (std::is_same_v<T, bool>) return t.r[slot] != 0;
    T value;
    memcpy(&value, t.r + slot, sizeof value);
    return value;
}

template <class T> void set(Thread& t, s32 slot, T value) {
    if constexpr (std::is_integral_v<T>) {
        t.r[slot] = std::is_signed_v<T> ? u64(s64(value)) : u64(value);
    } else {
        t.r[slot] = 0;
        memcpy(t.r + slot, &value, sizeof value);
    }
}

std::unordered_map<std::string, void (*)(Thread&, const Instruction&)> table;

// R = f(A, ...) for an instruction of that name.
template <class R, class A, class F> void op(const std::string& name, F) {
    table[name] = [](Thread& t, const Instruction& i) {
        A a = get<A>(t, i.v[1]), b = get<A>(t, i.v[2]), c = get<A>(t, i.v[3]);
        if constexpr (std::is_invocable_v<F, A>) set<R>(t, i.v[0], R(F{}(a)));
        else if constexpr (std::is_invocable_v<F, A, A>) set<R>(t, i.v[0], R(F{}(a, b)));
        else set<R>(t, i.v[0], R(F{}(a, b, c)));
    };
}

template <class T> void numbers(const std::string& s) {
    op<bool, T>("setp.eq" + s, [](T a, T b) { return a == b; });
    op<bool, T>("setp.lt" + s, [](T a, T b) { return a < b; });
    op<bool, T>("setp.le" + s, [](T a, T b) { return a <= b; });
    op<bool, T>("setp.gt" + s, [](T a, T b) { return a > b; });
    op<bool, T>("setp.ge" + s, [](T a, T b) { return a >= b; });
    op<bool, T>("setp.ne" + s, [](T a, T b) { return a < b || a > b; });
    op<T, T>("neg" + s, [](T a) { return -a; });
}

template <class T> void values(const std::string& s) {
    op<T, T>("mov" + s, [](T a) { return a; });
    table["selp" + s] = [](Thread& t, const Instruction& i) { set<T>(t, i.v[0], get<T>(t, i.v[t.r[i.v[3]] ? 1 : 2])); };
}

template <class T> void integers(const std::string& s) {
    numbers<T>(s);
    values<T>(s);
    op<T, T>("add" + s, [](T a, T b) { return a + b; });
    op<T, T>("sub" + s, [](T a, T b) { return a - b; });
    op<T, T>("mul.lo" + s, [](T a, T b) { return a * b; });
    op<T, T>("mad.lo" + s, [](T a, T b, T c) { return a * b + c; });
    op<T, T>("min" + s, [](T a, T b) { return std::min(a, b); });
    op<T, T>("max" + s, [](T a, T b) { return std::max(a, b); });
    op<T, T>("shr" + s, [](T a, T b) {
        constexpr u32 last = 8 * sizeof(T) - 1;
        return std::is_signed_v<T> || u32(b) <= last ? T(a >> std::min(u32(b), last)) : T(0);
    });
    using Wide = std::conditional_t<sizeof(T) == 8, std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>,
                                    std::conditional_t<std::is_signed_v<T>, s64, u64>>;
    op<T, T>("mul.hi" + s, [](T a, T b) { return T((Wide(a) * Wide(b)) >> (8 * sizeof(T))); });
    if constexpr (sizeof(T) == 4) op<Wide, T>("mul.wide" + s, [](T a, T b) { return Wide(a) * Wide(b); });
    table["div" + s] = [](Thread& t, const Instruction& i) {
        T a = get<T>(t, i.v[1]), b = get<T>(t, i.v[2]);
        if (b == 0) fail(t, i, "divides by zero");
        set<T>(t, i.v[0], b == T(-1) && std::is_signed_v<T> ? T(-a) : T(a / b));
    };
    table["rem" + s] = [](Thread& t, const Instruction& i) {
        T a = get<T>(t, i.v[1]), b = get<T>(t, i.v[2]);
        if (b == 0) fail(t, i, "divides by zero");
        set<T>(t, i.v[0], b == T(-1) && std::is_signed_v<T> ? T(0) : T(a % b));
    };
}

template <class T> void bits(const std::string& s) {
    values<T>(s);
    op<bool, T>("setp.eq" + s, [](T a, T b) { return a == b; });
    op<bool, T>("setp.ne" + s, [](T a, T b) { return a != b; });
    op<T, T>("and" + s, [](T a, T b) { return a & b; });
    op<T, T>("or" + s, [](T a, T b) { return a | b; });
    op<T, T>("xor" + s, [](T a, T b) { return a ^ b; });
    op<T, T>("not" + s, [](T a) { return ~a; });
    op<T, T>("shl" + s, [](T a, T b) { return u32(b) < 8 * sizeof(T) ? T(a << u32(b)) : T(0); });
    table["bfi" + s] = [](Thread& t, const Instruction& i) {
        u32 at = get<u32>(t, i.v[3]) & 255, length = get<u32>(t, i.v[4]) & 255;
        constexpr u32 width = 8 * sizeof(T);
        T a = get<T>(t, i.v[1]), b = get<T>(t, i.v[2]), ones = length >= width ? T(~T(0)) : T((T(1) << length) - 1);
        set<T>(t, i.v[0], at >= width ? b : T((b & ~T(ones << at)) | (T(a << at) & T(ones << at))));
    };
}

template <class T> T least(T a, T b) {  // a number rather than none, -0 before 0
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) ? b : a;
    return a < b || (a == b && std::signbit(a)) ? a : b;
}

template <class T> void floats(const std::string& s) {
    numbers<T>(s);
    values<T>(s);
    op<bool, T>("setp.equ" + s, [](T a, T b) { return !(a < b || a > b); });
    op<bool, T>("setp.neu" + s, [](T a, T b) { return a != b; });
    op<bool, T>("setp.ltu" + s, [](T a, T b) { return !(a >= b); });
    op<bool, T>("setp.leu" + s, [](T a, T b) { return !(a > b); });
    op<bool, T>("setp.gtu" + s, [](T a, T b) { return !(a <= b); });
    op<bool, T>("setp.geu" + s, [](T a, T b) { return !(a < b); });
    op<bool, T>("setp.num" + s, [](T a, T b) { return !std::isnan(a) && !std::isnan(b); });
    op<bool, T>("setp.nan" + s, [](T a, T b) { return std::isnan(a) || std::isnan(b); });
    for (std::string rounded : {"", ".rn"}) {
        op<T, T>("add" + rounded + s, [](T a, T b) { return a + b; });
        op<T, T>("sub" + rounded + s, [](T a, T b) { return a - b; });
        op<T, T>("mul" + rounded + s, [](T a, T b) { return a * b; });
    }
    op<T, T>("fma.rn" + s, [](T a, T b, T c) { return std::fma(a, b, c); });
    op<T, T>("fma.rm" + s, [](T a, T b, T c) {
        volatile T x = a, y = b, z = c;
        std::fesetround(FE_DOWNWARD);
        volatile T found = std::fma(x, y, z);
        std::fesetround(FE_TONEAREST);
        return T(found);
    });
    op<T, T>("div.rn" + s, [](T a, T b) { return a / b; });
    op<T, T>("rcp.rn" + s, [](T a) { return T(1) / a; });
    op<T, T>("sqrt.rn" + s, [](T a) { return std::sqrt(a); });
    op<T, T>("abs" + s, [](T a) { return std::abs(a); });
    op<T, T>("copysign" + s, [](T a, T b) { return std::copysign(b, a); });
    op<T, T>("cvt.rni" + s + s, [](T a) { return std::nearbyint(a); });
    op<T, T>("min" + s, [](T a, T b) { return least(a, b); });
    op<T, T>("max" + s, [](T a, T b) { return -least(-a, -b); });
}

float flushed(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.f, x) : x; }

float of_bits(u32 bits) {
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

u32 bfloat16(float x) {
    u32 bits;
    memcpy(&bits, &x, 4);
    return std::isnan(x) ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

template <class T> void load(Thread& t, const Instruction& i, unsigned char* from, int k = 0) {
    T value;
    memcpy(&value, from, sizeof value);
    set<T>(t, i.v[k], value);
}

u64 address(const Thread& t, const Instruction& i) { return t.r[i.v[4]] + u64(i.offset); }

template <class T, int N> void vectors(const std::string& s, const std::string& v) {
    for (std::string cached : {"", ".cg"})
        table["ld.global" + cached + v + s] = [](Thread& t, const Instruction& i) {
            unsigned char* from = global(t, i, address(t, i), N * sizeof(T), false);
            for (int k = 0; k < N; ++k) load<T>(t, i, from + k * sizeof(T), k);
        };
    table["st.global" + v + s] = [](Thread& t, const Instruction& i) {
        T values[N];
        for (int k = 0; k < N; ++k) memcpy(values + k, t.r + i.v[k], sizeof(T));
        memcpy(global(t, i, address(t, i), sizeof values, true, false, values), values, sizeof values);
    };
    table["ld.shared" + v + s] = [](Thread& t, const Instruction& i) {
        unsigned char* from = shared(t, i, address(t, i), N * sizeof(T), false);
        for (int k = 0; k < N; ++k) load<T>(t, i, from + k * sizeof(T), k);
    };
    table["st.shared" + v + s] = [](Thread& t, const Instruction& i) {
        unsigned char* to = shared(t, i, address(t, i), N * sizeof(T), true);
        for (int k = 0; k < N; ++k) memcpy(to + k * sizeof(T), t.r + i.v[k], sizeof(T));
    };
}

template <class T> void memory(const std::string& s) {
    vectors<T, 1>(s, "");
    if constexpr (sizeof(T) <= 8) vectors<T, 2>(s, ".v2");
    if constexpr (sizeof(T) <= 4) vectors<T, 4>(s, ".v4");
    table["ld.param" + s] = [](Thread& t, const Instruction& i) {
        T value;
        memcpy(&value, parameters + i.offset, sizeof value);
        set<T>(t, i.v[0], value);
    };
}

void release(Thread& t, const unsigned char* at) {  // the word carries what this thread knows and did
    std::vector<Thread*> alone = {&t};
    meet(alone);
    Seen& message = messages[at];
    message = joined(message, t.seen);
}

template <bool Release, bool Returns> void add(Thread& t, const Instruction& i) {
    auto* at = global(t, i, address(t, i), 4, true, true);
    auto* word = reinterpret_cast<u32*>(at);
    if (Release) release(t, at);
    u32 before = *word;
    *word = before + get<u32>(t, i.v[Returns ? 1 : 0]);
    if (Returns) set<u32>(t, i.v[0], before);
    yield(t);
}

template <bool Acquire> void load_atomic(Thread& t, const Instruction& i) {
    auto* at = global(t, i, address(t, i), 4, false, true);
    load<u32>(t, i, at);
    if (Acquire)
        if (auto found = messages.find(at); found != messages.end() && found->second != t.acquired) {
            t.acquired = found->second;
            look(t, joined(t.seen, t.acquired));
        }
    spin(t, i);
}

// Lane 4g + t of a warp holds A[g, .], A[g+8, .], B[., g] and C[g, 2t..], C[g+8, 2t..]; an operand's words are two
// bfloat16 or one tensor-float-32.
template <bool Pairs> void product(Thread& t, const Instruction& i) {
    gather(t, i, 0xffffffff, true, true, [&](Thread** lanes) {
        constexpr int K = Pairs ? 16 : 8;
        float A[16][16] = {}, B[16][8] = {}, C[16][8] = {};
        auto part = [](u32 word, int half) { return of_bits(Pairs ? (half ? word & 0xffff0000 : word << 16) : word & 0xffffe000); };
        for (u32 lane = 0; lane < 32; ++lane) {
            auto word = [&](int k) { return get<u32>(*lanes[lane], i.v[k]); };
            u32 g = lane / 4, q = lane % 4;
            for (int n = 0; n < 4; ++n) {
                for (int half = 0; half < (Pairs ? 2 : 1); ++half) {
                    A[g + 8 * (n & 1)][Pairs ? 2 * q + half + 8 * (n >> 1) : q + 4 * (n >> 1)] = part(word(4 + n), half);
                    if (n < 2) B[Pairs ? 2 * q + half + 8 * n : q + 4 * n][g] = part(word(8 + n), half);
                }
                C[g + 8 * (n >> 1)][2 * q + (n & 1)] = of_bits(word(10 + n));
            }
        }
        for (int row = 0; row < 16; ++row)
            for (int column = 0; column < 8; ++column) {
                double sum = C[row][column];
                for (int k = 0; k < K; ++k) sum += double(A[row][k]) * B[k][column];
                C[row][column] = float(sum);
            }
        for (u32 lane = 0; lane < 32; ++lane)
            for (int n = 0; n < 4; ++n) set<float>(*lanes[lane], i.v[n], C[lane / 4 + 8 * (n >> 1)][2 * (lane % 4) + (n & 1)]);
    });
}

void shuffle(Thread& t, const Instruction& i) {  // d|p, value, lane mask, clamp, members
    gather(t, i, get<u32>(t, i.v[5]), false, false, [&](Thread** lanes) {
        u32 given[32];
        for (int lane = 0; lane < 32; ++lane)
            if (lanes[lane]) given[lane] = get<u32>(*lanes[lane], i.v[2]);
        for (int lane = 0; lane < 32; ++lane) {
            if (!lanes[lane]) continue;
            int from = lane ^ int(get<u32>(*lanes[lane], i.v[3]) & 31), last = int(get<u32>(*lanes[lane], i.v[4]) & 31);
            bool inside = from <= last;
            if (!inside) from = lane;
            if (!lanes[from]) fail(t, i, "takes a word of a lane that has ended");
            set<u32>(*lanes[lane], i.v[0], given[from]);
            if (i.v[1] >= 0) set<bool>(*lanes[lane], i.v[1], inside);
        }
    });
}

void finish(Thread& t, const Instruction& i) {
    t.running = false;
    t.pc = -1;
    --alive;
    spins = 0;
    --t.warp->alive;
    if (!t.warp->waiting.empty() && int(t.warp->waiting.size()) >= t.warp->alive)
        fail(*t.warp->waiting[0], i, "an operation of a warp that a thread which has ended never reaches");
    --t.block->alive;
    open_block(*t.block, i);
}

void fill_table() {
    integers<s32>(".s32"), integers<u32>(".u32"), integers<s64>(".s64"), integers<u64>(".u64");
    bits<u32>(".b32"), bits<u64>(".b64"), bits<u16>(".b16"), values<u16>(".u16"), values<bool>(".pred");
    op<bool, bool>("not.pred", [](bool a) { return !a; });
    op<bool, bool>("and.pred", [](bool a, bool b) { return a && b; });
    op<bool, bool>("or.pred", [](bool a, bool b) { return a || b; });
    op<bool, bool>("xor.pred", [](bool a, bool b) { return a != b; });
    floats<float>(".f32"), floats<double>(".f64");
    memory<float>(".f32"), memory<double>(".f64"), memory<s32>(".s32"), memory<u32>(".u32"), memory<s64>(".s64"), memory<u64>(".u64");
    memory<u16>(".u16"), memory<int16_t>(".s16"), memory<uint8_t>(".u8"), memory<int8_t>(".s8");
    op<u64, u64>("cvta.to.global.u64", [](u64 a) { return a; });
    op<u64, u32>("cvt.u64.u32", [](u32 a) { return a; });
    op<s64, s32>("cvt.s64.s32", [](s32 a) { return a; });
    op<u32, u64>("cvt.u32.u64", [](u64 a) { return u32(a); });
    op<s32, s64>("cvt.s32.s64", [](s64 a) { return s32(a); });
    op<u32, u16>("cvt.u32.u16", [](u16 a) { return a; });
    op<u16, u32>("cvt.u16.u32", [](u32 a) { return u16(a); });
    op<double, float>("cvt.f64.f32", [](float a) { return a; });
    op<float, double>("cvt.rn.f32.f64", [](double a) { return float(a); });
    op<float, s32>("cvt.rn.f32.s32", [](s32 a) { return float(a); });
    op<float, u32>("cvt.rn.f32.u32", [](u32 a) { return float(a); });
    op<float, s64>("cvt.rn.f32.s64", [](s64 a) { return float(a); });
    op<float, u64>("cvt.rn.f32.u64", [](u64 a) { return float(a); });
    op<double, s32>("cvt.rn.f64.s32", [](s32 a) { return double(a); });
    op<double, u32>("cvt.rn.f64.u32", [](u32 a) { return double(a); });
    op<double, s64>("cvt.rn.f64.s64", [](s64 a) { return double(a); });
    op<double, u64>("cvt.rn.f64.u64", [](u64 a) { return double(a); });
    op<float, float>("cvt.sat.f32.f32", [](float a) { return std::isnan(a) ? 0.f : a < 0 ? 0.f : a > 1 ? 1.f : a; });
    op<u16, float>("cvt.rn.bf16.f32", [](float a) { return bfloat16(a); });
    op<u32, float>("cvt.rn.bf16x2.f32", [](float a, float b) { return bfloat16(a) << 16 | bfloat16(b); });
    op<float, float>("ex2.approx.ftz.f32", [](float a) { return flushed(std::exp2(flushed(a))); });
    op<float, float>("rcp.approx.ftz.f32", [](float a) { return flushed(1.f / flushed(a)); });
    op<u64, double>("rcp.approx.ftz.f64", [](double a) {  // the higher half alone
        double found = 1 / a;
        u64 word;
        memcpy(&word, &found, 8);
        return word & 0xffffffff00000000;
    });
    table["mov.b64.split"] = [](Thread& t, const Instruction& i) {
        u64 word = t.r[i.v[2]];
        set<u32>(t, i.v[0], u32(word)), set<u32>(t, i.v[1], u32(word >> 32));
    };
    op<u64, u32>("mov.b64.join", [](u32 low, u32 high) { return u64(high) << 32 | low; });
    table["bra"] = [](Thread& t, const Instruction& i) { t.pc = s32(i.offset); };
    table["ret"] = finish;
    table["bar.sync"] = block_barrier;
    table["bar.warp.sync"] = [](Thread& t, const Instruction& i) {
        gather(t, i, get<u32>(t, i.v[0]), false, true, [&](Thread** lanes) {
            std::vector<Thread*> all;
            for (int lane = 0; lane < 32; ++lane)
                if (lanes[lane]) all.push_back(lanes[lane]);
            meet(all);
        });
    };
    table["shfl.sync.bfly.b32"] = shuffle;
    table["mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"] = product<true>;
    table["mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"] = product<false>;
    table["red.release.gpu.global.add.u32"] = add<true, false>;
    table["red.relaxed.gpu.global.add.u32"] = add<false, false>;
    table["atom.global.add.u32"] = add<false, true>;
    table["ld.acquire.gpu.global.u32"] = load_atomic<true>;
    table["ld.relaxed.gpu.global.u32"] = load_atomic<false>;
}

// Each array has bounds of its own, even where two share memory.
void add_array(u64 place, u64 start, u64 size) {
    auto memory = allocated.upper_bound(start);
    if (!size || memory == allocated.begin() || start + size > std::prev(memory)->second) return;
    auto [first, last] = *std::prev(memory);
    auto& cells = cells_of.emplace(first, decltype(cells_of)::mapped_type(nullptr, &free)).first->second;
    if (!cells) cells.reset(static_cast<Cell*>(calloc((last - first) / 2 + 1, sizeof(Cell))));
    regions.push_back({place, place + size, reinterpret_cast<unsigned char*>(start), cells.get() + (start - first) / 2});
}

void run(Thread& t, const Instruction* code) {
    t.running = true;
    for (int n = 0; t.running; ++n) {
        if (n == TURN) return yield(t);
        const Instruction& i = code[t.pc++];
        if (++instructions > MOST_INSTRUCTIONS) fail(t, i, "does not end");
        if (i.guard >= 0 && (t.r[i.guard] != 0) == bool(i.negated)) continue;
        i.run(t, i);
    }
}

}  // namespace

extern "C" {

struct Code {
    std::vector<Instruction> instructions;
    std::vector<u64> image;  // constants, where registers begin
    u64 slots, shared;
};

// Memory of a GPU that is gone may still stand here: what the new memory overlaps is forgotten, with its cells.
void ptx_add_memory(u64 start, u64 size) {
    auto old = allocated.lower_bound(start);
    if (old != allocated.begin() && std::prev(old)->second > start) --old;
    while (old != allocated.end() && (old->first < start + size || old->first == start))
        cells_of.erase(old->first), old = allocated.erase(old);
    allocated[start] = start + size;
}

void ptx_remove_memory(u64 start) { allocated.erase(start), cells_of.erase(start); }

// Return a program, or null with the number of the first instruction that is not simulated in `unknown`.
Code* ptx_code(int count, const char** names, const s32* guards, const s32* operands, const s64* offsets, const u64* image,
               u64 constants, u64 slots, u64 shared, int* unknown) {
    if (table.empty()) fill_table();
    auto code = std::make_unique<Code>();
    code->instructions.resize(count);
    for (int n = 0; n < count; ++n) {
        Instruction& i = code->instructions[n];
        auto found = table.find(names[n]);
        if (found == table.end()) return *unknown = n, nullptr;
        i.run = found->second, i.place = n, i.offset = offsets[n];
        i.guard = guards[2 * n], i.negated = guards[2 * n + 1];
        std::copy_n(operands + n * OPERANDS, OPERANDS, i.v);
    }
    code->image.assign(image, image + constants), code->slots = slots, code->shared = shared;
    return code.release();
}

void ptx_free(Code* code) { delete code; }

// Run a grid; `together` blocks at a time, all of them where 0. Return 0, or 1 with `report`: the places of the
// instruction and of the other access of a race or -1, block x, y, z, thread; and a text. arrays: address in the program,
// memory and size of those that the kernel may use.
int ptx_run(Code* code, const u32* grid, const u32* size, u32 dynamic, const unsigned char* given, const u64* arrays,
            int count, u64 seed, u32 together, s32* report, char* text, int length) {
    u32 threads = size[0] * size[1] * size[2];
    u64 blocks = u64(grid[0]) * grid[1] * grid[2];
    parameters = given, at_random = seed != 0, random_state = seed * 0x9E3779B97F4A7C15ull + 88172645463325252ull;
    ++launch_number, instructions = spins = 0;
    messages.clear(), regions.clear();
    for (int n = 0; n < count; ++n) add_array(arrays[3 * n], arrays[3 * n + 1], arrays[3 * n + 2]);
    std::vector<u32> order(blocks);
    for (u64 n = 0; n < blocks; ++n) order[n] = u32(n);
    for (u64 n = at_random ? blocks : 0; n > 1; --n) std::swap(order[n - 1], order[draw() % n]);
    std::vector<std::unique_ptr<Block>> group;
    try {
        for (u64 begin = 0; begin < blocks; begin += group.size()) {
            group.clear(), ready.clear();
            for (u64 n = begin; n < blocks && (!together || n < begin + together); ++n) {
                group.push_back(std::make_unique<Block>());
                Block& block = *group.back();
                block.number = order[n];
                block.at[0] = order[n] % grid[0], block.at[1] = order[n] / grid[0] % grid[1];
                block.at[2] = order[n] / grid[0] / grid[1];
                block.threads.resize(threads), block.warps.resize((threads + 31) / 32), block.alive = int(threads);
                block.registers.assign(threads * code->slots, ~u64(0));
                block.shared.assign(code->shared + dynamic, 0xff), block.cells.resize(block.shared.size() / 2 + 1);
                for (u32 k = 0; k < threads; ++k) {
                    Thread& t = block.threads[k];
                    t.r = block.registers.data() + k * code->slots, t.id = block.number << 10 | k, t.block = &block;
                    t.warp = &block.warps[k / 32], ++t.warp->alive;
                    std::copy(code->image.begin(), code->image.end(), t.r);
                    u32 at[] = {k % size[0], k / size[0] % size[1], k / size[0] / size[1]};
                    for (int d = 0; d < 3; ++d) t.r[d] = at[d], t.r[3 + d] = size[d], t.r[6 + d] = block.at[d], t.r[9 + d] = grid[d];
                    ready.push_back(&t);
                }
            }
            alive = ready.size();
            while (!ready.empty()) {
                size_t n = at_random ? draw() % ready.size() : 0;
                Thread* t = ready[n];
                if (at_random) ready[n] = ready.back(), ready.pop_back();
                else ready.erase(ready.begin());
                run(*t, code->instructions.data());
            }
            for (auto& block : group)
                for (Thread& t : block->threads)
                    if (t.pc >= 0) fail(t, code->instructions[t.pc - 1], "waits for threads that never come");
        }
    } catch (const Failure& failure) {
        const Block& block = *failure.thread->block;
        s32 found[] = {failure.place, failure.other, s32(block.at[0]), s32(block.at[1]), s32(block.at[2]), s32(failure.thread->local())};
        std::copy(found, found + 6, report);
        snprintf(text, length, "%s", failure.what.c_str());
        return 1;
    }
    return 0;
}

}  // extern "C"

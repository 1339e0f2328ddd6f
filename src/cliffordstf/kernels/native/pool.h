// Memory that one batch after another uses, and what an operator takes of it while it runs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace cstf {

// Blocks of memory that are used again.
template <class T>
class Pool {
  public:
    T* take(size_t count) {
        size_t best = blocks.size();
        for (size_t i = 0; i < blocks.size(); ++i)
            if (!blocks[i].used && blocks[i].size >= count && (best == blocks.size() || blocks[i].size < blocks[best].size)) best = i;
        // A block that is much too large is left for something larger.
        if (best == blocks.size() || blocks[best].size > 4 * count + 4096) {
            blocks.push_back({Memory(allocated(count * sizeof(T))), count, false});
            best = blocks.size() - 1;
        }
        blocks[best].used = true;
        in_use += blocks[best].size, most_in_use = std::max(most_in_use, in_use);
        return blocks[best].memory.get();
    }
    void give(const T* memory) {
        for (Block& block : blocks)
            if (block.memory.get() == memory) block.used = false, in_use -= block.size;
    }
    // Frees what nobody uses.
    void trim() {
        std::vector<Block> kept;
        for (Block& block : blocks)
            if (block.used) kept.push_back(std::move(block));
        blocks = std::move(kept);
    }
    size_t bytes() const {
        size_t sum = 0;
        for (const Block& block : blocks) sum += block.size * sizeof(T);
        return sum;
    }
    // Bytes in use at most since the last call.
    size_t take_peak() {
        const size_t found = most_in_use * sizeof(T);
        most_in_use = in_use;
        return found;
    }

  private:
    struct Free {
        void operator()(T* memory) const { std::free(memory); }
    };
    using Memory = std::unique_ptr<T[], Free>;
    struct Block {
        Memory memory;
        size_t size;
        bool used;
    };
    std::vector<Block> blocks;
    size_t in_use = 0, most_in_use = 0;  // numbers

    // Large blocks get large pages where the system has them: there are a thousand times fewer to be set up at their first use.
    static T* allocated(size_t bytes) {
        constexpr size_t page = size_t(1) << 21, line = 64;
        const size_t unit = bytes >= 4 * page ? page : line;
        void* memory = std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit);
        if (!memory) throw std::bad_alloc();
#ifdef __linux__
        if (unit == page) madvise(memory, (bytes + unit - 1) / unit * unit, MADV_HUGEPAGE);
#endif
        return static_cast<T*>(memory);
    }
};

// Memory of a pool until its holder is gone.
template <class T>
class Lent {
  public:
    Lent() = default;
    Lent(Pool<T>& from, size_t count) : pool(&from), memory(from.take(count)) {}
    Lent(Lent&& other) noexcept : pool(other.pool), memory(std::exchange(other.memory, nullptr)) {}
    Lent& operator=(Lent&& other) noexcept {
        std::swap(pool, other.pool), std::swap(memory, other.memory);
        return *this;
    }
    ~Lent() {
        if (memory) pool->give(memory);
    }
    T* get() const { return memory; }
    T& operator[](size_t i) const { return memory[i]; }

  private:
    Pool<T>* pool = nullptr;
    T* memory = nullptr;
};

}  // namespace cstf

// Memory that one batch after another uses.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

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
        if (best == blocks.size() || blocks[best].size > 2 * count + 4096) {
            blocks.push_back({std::unique_ptr<T[]>(new T[count]), count, false});
            best = blocks.size() - 1;
        }
        blocks[best].used = true;
        return blocks[best].memory.get();
    }
    void give(const T* memory) {
        for (Block& block : blocks)
            if (block.memory.get() == memory) block.used = false;
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

  private:
    struct Block {
        std::unique_ptr<T[]> memory;
        size_t size;
        bool used;
    };
    std::vector<Block> blocks;
};

}  // namespace cstf

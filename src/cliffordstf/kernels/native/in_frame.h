// Features inside the frame of an edge (frame.h): the way in and out, products with numbers, turns.
#pragma once

#include <type_traits>

#include "frame.h"

namespace cstf {

// Features of one atom in a frame, NV vectors of channels a component.
constexpr int FRAME_COMPONENTS = 256;

template <class T, int NV>
struct InFrame {
    Vec<T> x[FRAME_COMPONENTS][NV];
};

template <class T, int NV>
inline void get(const T* p, Vec<T> (&v)[NV]) {
    CSTF_UNROLL for (int i = 0; i < NV; ++i) v[i] = load(p + i * Simd<T>::lanes);
}

// y_k = sum_q A[k][q] x_q for the first ROWS of D components, rows of x C apart
template <class T, int NV, int D, int ROWS>
inline void into_frame(const T* A, const T* x, int C, Vec<T> (*y)[NV]) {
    constexpr int R = ROWS < 5 ? ROWS : 4;
    CSTF_UNROLL for (int k = 0; k < ROWS; k += R) {
        Vec<T> sum[R][NV] = {};
        CSTF_UNROLL for (int q = 0; q < D; ++q) {
            Vec<T> v[NV];
            get<T, NV>(x + q * C, v);
            CSTF_UNROLL for (int r = 0; r < R; ++r)
                if (k + r < ROWS) CSTF_UNROLL for (int i = 0; i < NV; ++i) sum[r][i] += A[(k + r) * D + q] * v[i];
        }
        CSTF_UNROLL for (int r = 0; r < R; ++r)
            if (k + r < ROWS) CSTF_UNROLL for (int i = 0; i < NV; ++i) y[k + r][i] = sum[r][i];
    }
}

// out_q += sum_k A[k][q] y_k over the first ROWS of D components
template <class T, int NV, int D, int ROWS>
inline void out_of_frame(const T* A, const Vec<T> (*y)[NV], T* out, int C) {
    constexpr int R = D < 5 ? D : 4, W = Simd<T>::lanes;
    CSTF_UNROLL for (int q = 0; q < D; q += R) {
        Vec<T> sum[R][NV];
        CSTF_UNROLL for (int r = 0; r < R; ++r)
            if (q + r < D) get<T, NV>(out + (q + r) * C, sum[r]);
        CSTF_UNROLL for (int k = 0; k < ROWS; ++k)
            CSTF_UNROLL for (int r = 0; r < R; ++r)
                if (q + r < D) CSTF_UNROLL for (int i = 0; i < NV; ++i) sum[r][i] += A[k * D + q + r] * y[k][i];
        CSTF_UNROLL for (int r = 0; r < R; ++r)
            if (q + r < D) CSTF_UNROLL for (int i = 0; i < NV; ++i) store(out + (q + r) * C + i * W, sum[r][i]);
    }
}

// Call f with the components of a track, and those that it has in the frame, as compile-time constants.
template <int D, class F>
inline void with_rows(int rows, F&& f) {
    constexpr std::integral_constant<int, D> all{};
    if (rows == D) return f(all, all);
    if constexpr (D > 3) {
        if (rows == 3) return f(all, std::integral_constant<int, 3>{});
    }
    if constexpr (D > 5) {
        if (rows == 5) return f(all, std::integral_constant<int, 5>{});
    }
    if constexpr (D > 7) {
        if (rows == 7) return f(all, std::integral_constant<int, 7>{});
    }
    f(all, std::integral_constant<int, 1>{});
}

template <class F>
inline void with_components(const FrameTrack& t, int level, F&& f) {
    switch (t.degree) {
        case 0: return with_rows<1>(t.rows[level], f);
        case 1: return with_rows<3>(t.rows[level], f);
        case 2: return with_rows<5>(t.rows[level], f);
        case 3: return with_rows<7>(t.rows[level], f);
        default: return with_rows<9>(t.rows[level], f);
    }
}

// Call f with the number of components of an order as a compile-time constant.
template <class F>
inline void with_parts(int32_t both, F&& f) {
    if (both) f(std::integral_constant<int, 2>{});
    else f(std::integral_constant<int, 1>{});
}

template <class T, int NV, int PARTS>
inline void put(const Vec<T> (&sum)[PARTS][NV], Vec<T> (*y)[NV]) {
    CSTF_UNROLL for (int q = 0; q < PARTS; ++q) CSTF_UNROLL for (int v = 0; v < NV; ++v) y[q][v] = sum[q][v];
}

template <class F>
inline void each_component(const FrameSide& side, int level, F&& f) {
    for (int64_t q = 0; q < side.tracks; ++q) {
        const FrameTrack& t = side.track[q];
        for (int i = t.start; i < t.start + t.rows[level]; ++i) f(i);
    }
}

template <class T, int NV>
inline void enter(const FrameSide& side, int level, const T* frame, const T* rows, int C, InFrame<T, NV>& y) {
    for (int64_t i = 0; i < side.tracks; ++i) {
        const FrameTrack& t = side.track[i];
        with_components(t, level, [&](auto D, auto ROWS) {
            into_frame<T, NV, D, ROWS>(frame + t.matrix, rows + t.start * C, C, y.x + t.start);
        });
    }
}

template <class T, int NV>
inline void leave(const FrameSide& side, int level, const T* frame, const InFrame<T, NV>& y, T* rows, int C) {
    for (int64_t i = 0; i < side.tracks; ++i) {
        const FrameTrack& t = side.track[i];
        with_components(t, level, [&](auto D, auto ROWS) {
            out_of_frame<T, NV, D, ROWS>(frame + t.matrix, y.x + t.start, rows + t.start * C, C);
        });
    }
}

// y = F x for the components of `side`, x of the other side; w are the numbers, `width` apart.
template <class T, int NV>
inline void multiply(const FrameSide& side, const T* w, int width, const InFrame<T, NV>& x, InFrame<T, NV>& y) {
    for (int64_t i = 0; i < side.orders; ++i) {
        const FrameOrder& o = side.order[i];
        with_parts(o.both, [&](auto parts) {
            Vec<T> sum[parts][NV] = {};
            for (int32_t p = o.first; p < o.last; ++p) {
                const FrameLink& l = side.link[p];
                CSTF_UNROLL for (int v = 0; v < NV; ++v) {
                    const Vec<T> f = load(w + l.number * width + v * Simd<T>::lanes);
                    CSTF_UNROLL for (int q = 0; q < parts; ++q) sum[q][v] += f * x.x[l.component + q][v];
                }
            }
            put<T, NV, parts>(sum, y.x + o.component);
        });
    }
}

// y = F x and y1 = F x1 + UF x
template <class T, int NV>
inline void multiply_second(const FrameSide& side, const T* w, const T* uw, int width, const InFrame<T, NV>& x,
                            const InFrame<T, NV>& x1, InFrame<T, NV>& y, InFrame<T, NV>& y1) {
    for (int64_t i = 0; i < side.orders; ++i) {
        const FrameOrder& o = side.order[i];
        with_parts(o.both, [&](auto parts) {
            Vec<T> sum[parts][NV] = {}, sum1[parts][NV] = {};
            for (int32_t p = o.first; p < o.last; ++p) {
                const FrameLink& l = side.link[p];
                CSTF_UNROLL for (int v = 0; v < NV; ++v) {
                    const Vec<T> f = load(w + l.number * width + v * Simd<T>::lanes);
                    const Vec<T> uf = load(uw + l.number * width + v * Simd<T>::lanes);
                    CSTF_UNROLL for (int q = 0; q < parts; ++q) {
                        const Vec<T> value = x.x[l.component + q][v];
                        sum[q][v] += f * value;
                        sum1[q][v] += f * x1.x[l.component + q][v];
                        sum1[q][v] += uf * value;
                    }
                }
            }
            put<T, NV, parts>(sum, y.x + o.component);
            put<T, NV, parts>(sum1, y1.x + o.component);
        });
    }
}

// dw (+)= <y, x> for every number; y has the components of the target.
template <class T, int NV, bool ADD>
inline void number_gradients(const FrameSide& target, const InFrame<T, NV>& x, const InFrame<T, NV>& y, T* dw, int width) {
    for (int64_t i = 0; i < target.orders; ++i) {
        const FrameOrder& o = target.order[i];
        with_parts(o.both, [&](auto parts) {
            CSTF_UNROLL for (int v = 0; v < NV; ++v) {
                Vec<T> b[parts];
                CSTF_UNROLL for (int q = 0; q < parts; ++q) b[q] = y.x[o.component + q][v];
                for (int32_t p = o.first; p < o.last; ++p) {
                    const FrameLink& l = target.link[p];
                    T* place = dw + l.number * width + v * Simd<T>::lanes;
                    Vec<T> sum = ADD ? load(place) : Vec<T>{};
                    CSTF_UNROLL for (int q = 0; q < parts; ++q) sum += b[q] * x.x[l.component + q][v];
                    store(place, sum);
                }
            }
        });
    }
}

// dw (+)= <y, x1> + <y1, x> and dw1 (+)= <y, x>
template <class T, int NV, bool ADD>
inline void second_number_gradients(const FrameSide& target, const InFrame<T, NV>& x, const InFrame<T, NV>& x1,
                                    const InFrame<T, NV>& y, const InFrame<T, NV>& y1, T* dw, T* dw1, int width) {
    for (int64_t i = 0; i < target.orders; ++i) {
        const FrameOrder& o = target.order[i];
        with_parts(o.both, [&](auto parts) {
            CSTF_UNROLL for (int v = 0; v < NV; ++v) {
                Vec<T> b[parts], b1[parts];
                CSTF_UNROLL for (int q = 0; q < parts; ++q) {
                    b[q] = y.x[o.component + q][v];
                    b1[q] = y1.x[o.component + q][v];
                }
                for (int32_t p = o.first; p < o.last; ++p) {
                    const FrameLink& l = target.link[p];
                    const int place = l.number * width + v * Simd<T>::lanes;
                    Vec<T> sum = ADD ? load(dw + place) : Vec<T>{}, sum1 = ADD ? load(dw1 + place) : Vec<T>{};
                    CSTF_UNROLL for (int q = 0; q < parts; ++q) {
                        const Vec<T> a = x.x[l.component + q][v];
                        sum += b[q] * x1.x[l.component + q][v];
                        sum += b1[q] * a;
                        sum1 += b[q] * a;
                    }
                    store(dw + place, sum);
                    store(dw1 + place, sum1);
                }
            }
        });
    }
}

// torques += <J a, b>
template <class T, int NV>
inline void add_torque(const FrameSide& side, int level, const InFrame<T, NV>& a, const InFrame<T, NV>& b, T* torques) {
    const FrameTurns& turns = side.turns[level - 1];
    const T* value = static_cast<const T*>(turns.value);
    Vec<T> sums[2][NV] = {};
    each_component(side, level, [&](int i) {
        CSTF_UNROLL for (int axis = 0; axis < 2; ++axis) {
            Vec<T> sum[NV] = {};
            for (int32_t p = turns.pointers[2 * i + axis]; p < turns.pointers[2 * i + axis + 1]; ++p)
                CSTF_UNROLL for (int v = 0; v < NV; ++v) sum[v] += value[p] * a.x[turns.element[p].column][v];
            CSTF_UNROLL for (int v = 0; v < NV; ++v) sums[axis][v] += sum[v] * b.x[i][v];
        }
    });
    CSTF_UNROLL for (int axis = 0; axis < 2; ++axis) {
        for (int v = 1; v < NV; ++v) sums[axis][0] += sums[axis][v];
        torques[axis] += total<T>(sums[axis][0]);
    }
}

// y (+)= J x, the generator of a turn given by its elements
template <class T, int NV, bool ADD>
inline void turned(const FrameSide& side, int level, const T* J, const InFrame<T, NV>& x, InFrame<T, NV>& y) {
    const FrameTurns& turns = side.turns[level - 1];
    each_component(side, level, [&](int i) {
        Vec<T> sum[NV];
        CSTF_UNROLL for (int v = 0; v < NV; ++v) sum[v] = ADD ? y.x[i][v] : Vec<T>{};
        for (int32_t p = turns.pointers[2 * i]; p < turns.pointers[2 * i + 2]; ++p)
            CSTF_UNROLL for (int v = 0; v < NV; ++v) sum[v] += J[p] * x.x[turns.element[p].column][v];
        CSTF_UNROLL for (int v = 0; v < NV; ++v) y.x[i][v] = sum[v];
    });
}

template <class T, int NV>
inline void clear(const FrameSide& side, InFrame<T, NV>& y) {
    std::fill(&y.x[0][0], &y.x[side.components][0], Vec<T>{});
}

// result (+)= m x for an atom's features, rows C apart
template <class T, bool ADD>
inline void change_basis(const SparseMatrix& m, int64_t rows, const T* x, int C, T* result) {
    const T* value = static_cast<const T*>(m.value);
    for (int64_t i = 0; i < rows; ++i)
        for (int ch = 0; ch < C; ch += Simd<T>::lanes) {
            Vec<T> sum = ADD ? load(result + i * C + ch) : Vec<T>{};
            for (int32_t p = m.pointers[i]; p < m.pointers[i + 1]; ++p) sum += value[p] * load(x + m.column[p] * C + ch);
            store(result + i * C + ch, sum);
        }
}

}  // namespace cstf

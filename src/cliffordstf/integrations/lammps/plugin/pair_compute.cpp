// One evaluation: rows, pairs, models, sums; and what ranks send to each other meanwhile.
#include <algorithm>
#include <cmath>

#include "atom.h"
#include "comm.h"
#include "neigh_list.h"
#include "neighbor.h"
#include "pair_cliffordstf.h"
#include "update.h"

using namespace LAMMPS_NS;

void PairCliffordSTF::compute(int eflag, int vflag) {
    ev_init(eflag, vflag);
    if (neighbor->ago == 0 || rows_are_old) find_rows();
    find_pairs();
    forces_of_members.clear();
    const double share = 1.0 / static_cast<double>(members.size());
    for (size_t m = 0; m < members.size(); ++m) evaluate_member(static_cast<int64_t>(m), share);
    last_pairs.receivers.swap(pairs.receivers), last_pairs.senders.swap(pairs.senders);
    if (is_ensemble()) find_force_std();
}

// After a new neighbour list: who owns which ghost.
void PairCliffordSTF::find_rows() {
    rows.add_owned(atom->nlocal, atom->type, element_of_type);
    owners.assign(2 * atom->nghost, -1);
    sends_owners = true;
    comm->forward_comm(this, 2);
    sends_owners = false;
    for (int64_t g = 0; g < atom->nghost; ++g) {
        const bool is_ours = owners[2 * g] == comm->me;
        rows.add_ghost(atom->type[atom->nlocal + g], element_of_type, is_ours ? static_cast<int64_t>(owners[2 * g + 1]) : -1);
    }
    last_pairs.clear();
    rows_are_old = true;  // until the runtime has them
}

void PairCliffordSTF::find_pairs() {
    const double cutoff = members[0]->about().cutoff, limit = cutoff * cutoff;
    double** const x = atom->x;
    pairs.clear();
    for (int k = 0; k < list->inum; ++k) {
        const int i = list->ilist[k];
        const int* const neighbours = list->firstneigh[i];
        for (int n = 0; n < list->numneigh[i]; ++n) {
            const int j = neighbours[n] & NEIGHMASK;
            const double d[3] = {x[j][0] - x[i][0], x[j][1] - x[i][1], x[j][2] - x[i][2]};
            // Not finite is kept, so that it is found.
            if (!(d[0] * d[0] + d[1] * d[1] + d[2] * d[2] >= limit)) pairs.add(rows.row(i), rows.row(j), d);
        }
    }
}

void PairCliffordSTF::evaluate_member(int64_t m, double share) {
    cstf_lammps::Potential& member = *members[m];
    try {
        if (rows_are_old || !pairs.connects_as(last_pairs)) member.set_neighbours(pairs.neighbours(rows));
        member.evaluate(pairs.vectors, rows.atoms(), rows.all(), vflag_global, vflag_atom, found);
    } catch (const std::exception& problem) {
        stop_one(problem.what());
    }
    if (m + 1 == static_cast<int64_t>(members.size())) rows_are_old = false;
    if (is_ensemble()) sum_forces_of_ghosts();
    check_finite(member.file());
    if (comm->me == 0 && eflag_global) eng_vdwl += share * unit * member.about().constant;
    add_results(share);
}

void PairCliffordSTF::check_finite(const std::string& path) {
    double sum = 0;
    for (const double force : found.forces) sum += force;
    for (const double energy : found.energies) sum += energy;
    if (std::isfinite(sum)) return;
    int64_t row = 0;
    const auto is_good = [&](int64_t r) {
        const double* f = found.forces.data() + 3 * r;
        return std::isfinite(f[0] + f[1] + f[2]) && (r >= rows.atoms() || std::isfinite(found.energies[r]));
    };
    while (row + 1 < rows.all() && is_good(row)) ++row;
    stop_one("at step " + std::to_string(update->ntimestep) + " the model " + path +
             " gives an energy or forces that are not finite numbers, at or near atom " + std::to_string(atom->tag[index_of_row(row)]) +
             "; check for atoms that are too close, and the model for damaged weights");
}

int64_t PairCliffordSTF::index_of_row(int64_t row) const {
    for (int64_t i = 0; i < atom->nlocal + atom->nghost; ++i)
        if (rows.row(i) == row) return i;
    return 0;
}

// Ghosts with rows of their own are sent back by LAMMPS; images of owned atoms are in their owners' rows.
void PairCliffordSTF::add_results(double share) {
    const double factor = share * unit;
    const int64_t locals = atom->nlocal, all = locals + atom->nghost;
    for (int64_t i = 0; i < all; ++i) {
        const int64_t row = rows.row(i);
        if (row < 0 || (i >= locals && !rows.is_sent(i))) continue;
        for (int k = 0; k < 3; ++k) atom->f[i][k] += factor * found.forces[3 * row + k];
        if (vflag_atom) {
            const double* w = found.atom_virials.data() + 9 * row;
            const double ordered[6] = {w[0], w[4], w[8], w[1], w[2], w[5]};
            for (int k = 0; k < 6; ++k) vatom[i][k] -= factor * ordered[k];
        }
        if (i >= locals) continue;
        if (eflag_atom) eatom[i] += factor * found.energies[row];
        if (eflag_global) eng_vdwl += factor * found.energies[row];
    }
    if (!vflag_global) return;
    const double* w = found.virial;
    const double ordered[6] = {w[0], w[4], w[8], w[1], w[2], w[5]};
    for (int k = 0; k < 6; ++k) virial[k] -= factor * ordered[k];
}

// Of an ensemble, because the spread of a force is that of its sum.
void PairCliffordSTF::sum_forces_of_ghosts() {
    if (comm->nprocs > 1) exchange(this, 1, found.forces.data(), 3, sizeof(double));
    std::fill(found.forces.begin() + 3 * rows.atoms(), found.forces.end(), 0.0);
    forces_of_members.emplace_back(found.forces.begin(), found.forces.begin() + 3 * rows.atoms());
}

void PairCliffordSTF::find_force_std() {
    const double count = static_cast<double>(members.size());
    force_std.assign(std::max(1, atom->nmax), 0.0);
    int64_t worst = 0;
    for (int64_t i = 0; i < atom->nlocal; ++i) {
        if (rows.row(i) < 0) continue;
        double sum = 0;
        for (int k = 0; k < 3; ++k) {
            double mean = 0, squares = 0;
            for (const auto& forces : forces_of_members) mean += forces[3 * rows.row(i) + k] / count;
            for (const auto& forces : forces_of_members) squares += std::pow(forces[3 * rows.row(i) + k] - mean, 2);
            sum += squares / (count - 1);
        }
        force_std[i] = unit * std::sqrt(sum);
        if (force_std[i] > force_std[worst]) worst = i;
    }
    double mine = force_std[worst], largest = 0;
    MPI_Allreduce(&mine, &largest, 1, MPI_DOUBLE, MPI_MAX, world);
    pvector[0] = comm->me == 0 ? largest : 0.0;  // compute pair adds up over ranks
    if (max_force_std > 0 && largest > max_force_std)
        stop("at step " + std::to_string(update->ntimestep) + " the forces of the ensemble spread by " + std::to_string(largest) +
             ", more than max_force_std " + std::to_string(max_force_std));
}

// The runtime's callback: rows of owned atoms to their ghosts, or sums of ghosts to their owners.
int PairCliffordSTF::exchange(void* self, int reverse, void* rows, int64_t width, int bytes) {
    auto* const pair = static_cast<PairCliffordSTF*>(self);
    pair->exchanged = {static_cast<char*>(rows), width, bytes};
    if (reverse) pair->comm->reverse_comm(pair, pair->exchanged.size());
    else pair->comm->forward_comm(pair, pair->exchanged.size());
    return 0;
}

int PairCliffordSTF::pack_forward_comm(int count, int* indices, double* buffer, int, int*) {
    const int size = sends_owners ? 2 : exchanged.size();
    for (int k = 0; k < count; ++k, buffer += size) {
        const int i = indices[k];
        if (!sends_owners) {
            if (rows.row(i) >= 0) exchanged.put(rows.row(i), buffer);
        } else if (i < atom->nlocal) {
            buffer[0] = comm->me, buffer[1] = i;
        } else {
            std::copy_n(&owners[2 * (i - atom->nlocal)], 2, buffer);  // a ghost that is passed on
        }
    }
    return count * size;
}

void PairCliffordSTF::unpack_forward_comm(int count, int first, double* buffer) {
    const int size = sends_owners ? 2 : exchanged.size();
    for (int i = first; i < first + count; ++i, buffer += size) {
        if (sends_owners) std::copy_n(buffer, 2, &owners[2 * (i - atom->nlocal)]);
        else if (rows.is_sent(i)) exchanged.take(rows.row(i), buffer);
    }
}

// What an image of an owned atom has got is in its owner's row already.
int PairCliffordSTF::pack_reverse_comm(int count, int first, double* buffer) {
    const int size = exchanged.size();
    for (int i = first; i < first + count; ++i, buffer += size) {
        if (rows.is_sent(i)) exchanged.put(rows.row(i), buffer);
        else std::fill_n(buffer, size, 0.0);
    }
    return count * size;
}

void PairCliffordSTF::unpack_reverse_comm(int count, int* indices, double* buffer) {
    const int size = exchanged.size();
    for (int k = 0; k < count; ++k, buffer += size)
        if (rows.row(indices[k]) >= 0) exchanged.add(rows.row(indices[k]), buffer);
}

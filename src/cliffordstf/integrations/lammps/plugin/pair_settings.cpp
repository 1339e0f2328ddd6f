// What an input script chooses: options, models, elements of types.
#include <cstdio>
#include <cstring>

#include "atom.h"
#include "comm.h"
#include "domain.h"
#include "error.h"
#include "force.h"
#include "memory.h"
#include "neighbor.h"
#include "pair_cliffordstf.h"
#include "update.h"
#include "utils.h"

using namespace LAMMPS_NS;
using cstf_lammps::Potential;

PairCliffordSTF::PairCliffordSTF(LAMMPS* lmp) : Pair(lmp) {
    single_enable = 0, restartinfo = 0, one_coeff = 1, manybody_flag = 1;
    no_virial_fdotr_compute = 1;
    centroidstressflag = CENTROID_NOTAVAIL;
}

PairCliffordSTF::~PairCliffordSTF() {
    delete[] pvector;
    if (!allocated) return;
    memory->destroy(setflag);
    memory->destroy(cutsq);
}

void PairCliffordSTF::stop(const std::string& what) { error->all(FLERR, "pair_style cliffordstf: " + what); }
void PairCliffordSTF::stop_one(const std::string& what) { error->one(FLERR, "pair_style cliffordstf: " + what); }

bool PairCliffordSTF::is_in_hybrid() const { return utils::strmatch(force->pair_style, "^hybrid"); }

void PairCliffordSTF::settings(int count, char** words) {
    for (int i = 0; i < count; i += 2) {
        const std::string name = words[i];
        if (i + 1 == count) stop("the option '" + name + "' lacks its value");
        const std::string value = words[i + 1];
        const auto positive = [&] {
            const double number = utils::numeric(FLERR, value, false, lmp);
            if (!(number > 0)) stop(name + " is " + value + ", but must be above zero");
            return number;
        };
        if (name == "precision") {
            if (value != "float32" && value != "float64") stop("precision is '" + value + "'; choose float32 or float64");
            precision = value;
        } else if (name == "threads") {
            threads = utils::inumeric(FLERR, value, false, lmp);
            if (threads < 1) stop("threads is " + value + ", but must be above zero");
        } else if (name == "memory") {
            memory_bytes = 1e9 * positive();
        } else if (name == "max_force_std") {
            max_force_std = positive();
        } else {
            stop("there is no option '" + name + "'; there are precision, threads, memory and max_force_std");
        }
    }
    members.clear();  // they have the precision that was chosen before
}

void PairCliffordSTF::allocate() {
    const int n = atom->ntypes + 1;
    memory->create(setflag, n, n, "pair:setflag");
    memory->create(cutsq, n, n, "pair:cutsq");
    for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j) setflag[i][j] = 0;
    allocated = 1;
}

void PairCliffordSTF::coeff(int count, char** words) {
    if (!allocated) allocate();
    const int models = count - 2 - atom->ntypes;  // after * *, which LAMMPS has checked
    if (models < 1)
        stop("pair_coeff needs a model and an element for each of the " + std::to_string(atom->ntypes) +
             " atom types: pair_coeff * * model.cstf H C O");
    members.clear();
    for (int m = 0; m < models; ++m) open_model(words[2 + m]);
    check_elements(atom->ntypes, words + 2 + models);
    delete[] pvector;
    nextra = is_ensemble() ? 1 : 0;
    pvector = is_ensemble() ? new double[1]{0} : nullptr;
    if (max_force_std > 0 && !is_ensemble()) stop("max_force_std needs an ensemble: give pair_coeff several models");
}

// One rank reads, all get the content.
std::vector<char> PairCliffordSTF::read_file(const std::string& path) {
    std::vector<char> content;
    long long size = -1;
    if (comm->me == 0) {
        if (FILE* const file = std::fopen(path.c_str(), "rb")) {
            char part[1 << 16];
            while (const size_t length = std::fread(part, 1, sizeof part, file)) content.insert(content.end(), part, part + length);
            if (!std::ferror(file)) size = static_cast<long long>(content.size());
            std::fclose(file);
        }
    }
    MPI_Bcast(&size, 1, MPI_LONG_LONG, 0, world);
    if (size < 0) stop("the model " + path + " cannot be read; write it with `cliffordstf export`");
    if (size > 2000000000) stop("the model " + path + " has more than 2 GB");
    content.resize(size);
    MPI_Bcast(content.data(), static_cast<int>(size), MPI_CHAR, 0, world);
    return content;
}

void PairCliffordSTF::open_model(const std::string& path) {
    const std::vector<char> content = read_file(path);
    try {
        members.push_back(std::make_unique<Potential>(path, content, precision));
    } catch (const std::exception& problem) {
        std::string reason = problem.what();
        if (!reason.empty() && reason.back() == '.') reason.pop_back();
        stop(path + ": " + reason);
    }
    const cstf_description &about = members.back()->about(), &first = members[0]->about();
    if (about.is_mean) stop("the model " + path + " predicts a mean over atoms, not an energy that forces follow from");
    if (about.cutoff != first.cutoff) stop("the models of an ensemble must have the same cutoff, but " + path + " has another one");
}

void PairCliffordSTF::check_elements(int count, char** words) {
    element_of_type.assign(count + 1, 0);
    for (int type = 1; type <= count; ++type) {
        const std::string symbol = words[type - 1];
        if (symbol == "NULL") {
            if (!is_in_hybrid()) stop("the type " + std::to_string(type) + " is NULL, which only hybrid pair styles allow");
            continue;
        }
        const int32_t z = cstf_lammps::atomic_number(symbol);
        if (!z) stop("'" + symbol + "', given for atom type " + std::to_string(type) + ", is no element");
        for (const auto& member : members)
            if (!member->has(z)) stop("the model " + member->file() + " was not trained for " + symbol + "; it knows " + member->symbols());
        element_of_type[type] = z;
    }
    int pairs_set = 0;
    for (int i = 1; i <= count; ++i)
        for (int j = i; j <= count; ++j) pairs_set += setflag[i][j] = element_of_type[i] && element_of_type[j];
    if (!pairs_set) stop("no atom type has an element");
}

void PairCliffordSTF::init_style() {
    if (members.empty()) stop("there is no model yet; give one with pair_coeff");
    const std::string style = update->unit_style;
    if (style != "metal" && style != "real") stop("units " + style + " are not supported; use units metal or real");
    unit = style == "metal" ? 1.0 : 23.060549;
    if (!force->newton_pair) stop("every pair of atoms must be on one rank; use newton on");
    if (domain->dimension != 3) stop("only three-dimensional systems are supported");
    check_neighbour_settings();
    // Images within this rank have their owners' rows, so one rank alone exchanges nothing.
    int64_t widest = 3;
    for (const auto& member : members) {
        widest = std::max(widest, member->about().widest);
        member->set_threads(threads ? threads : std::max(1, comm->nthreads));
        member->set_memory(memory_bytes / static_cast<double>(members.size()));
        member->set_exchange(comm->nprocs > 1 ? &PairCliffordSTF::exchange : nullptr, this);
    }
    const int size = static_cast<int>(precision == "float64" ? widest : std::max<int64_t>(3, (widest + 1) / 2));
    comm_forward = comm_reverse = size;
    // A hybrid style has asked before the model was known.
    force->pair->comm_forward = std::max(force->pair->comm_forward, size);
    force->pair->comm_reverse = std::max(force->pair->comm_reverse, size);
    neighbor->add_request(this);
    rows_are_old = true;
}

// A pair that is left out changes the energy of all its neighbours, which no user can want.
void PairCliffordSTF::check_neighbour_settings() {
    if (neighbor->nex_type || neighbor->nex_group || neighbor->nex_mol) stop("neigh_modify exclude takes pairs away that the model needs");
    if (atom->molecular == Atom::ATOMIC) return;
    for (int k = 1; k <= 3; ++k)
        if (force->special_lj[k] == 0 && force->special_coul[k] == 0 && atom->nbonds > 0)
            stop("pairs of bonded atoms are left out; use special_bonds lj/coul 1 1 1");
}

double PairCliffordSTF::init_one(int i, int j) {
    if (!setflag[i][j]) stop("the types " + std::to_string(i) + " and " + std::to_string(j) + " have no elements");
    return members[0]->about().cutoff;
}

void* PairCliffordSTF::extract_peratom(const char* name, int& columns) {
    columns = 0;
    if (!is_ensemble() || std::strcmp(name, "force_std") != 0) return nullptr;
    force_std.resize(std::max(1, atom->nmax), 0.0);
    return force_std.data();
}

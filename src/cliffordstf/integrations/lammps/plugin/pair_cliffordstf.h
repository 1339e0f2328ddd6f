// pair_style cliffordstf [precision float32|float64] [threads N] [memory GB] [max_force_std X]
// pair_coeff * * model.cstf [more models] element of type 1, of type 2, ...
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "neighbourhood.h"
#include "pair.h"
#include "potential.h"

namespace LAMMPS_NS {

class PairCliffordSTF : public Pair {
  public:
    explicit PairCliffordSTF(LAMMPS* lmp);
    ~PairCliffordSTF() override;

    void settings(int count, char** words) override;
    void coeff(int count, char** words) override;
    void init_style() override;
    double init_one(int i, int j) override;
    void compute(int eflag, int vflag) override;

    // Of an ensemble: "force_std", per atom the length of the vector of standard deviations of the force.
    void* extract_peratom(const char* name, int& columns) override;

    int pack_forward_comm(int count, int* indices, double* buffer, int, int*) override;
    void unpack_forward_comm(int count, int first, double* buffer) override;
    int pack_reverse_comm(int count, int first, double* buffer) override;
    void unpack_reverse_comm(int count, int* indices, double* buffer) override;

  private:
    std::string precision = "float32";
    int threads = 0;              // 0: as many as LAMMPS has
    double memory_bytes = 4e9, max_force_std = 0;
    double unit = 1;              // of LAMMPS's energies in an eV
    std::vector<std::unique_ptr<cstf_lammps::Potential>> members;
    std::vector<int32_t> element_of_type;

    bool rows_are_old = true;
    cstf_lammps::Rows rows;
    cstf_lammps::Pairs pairs, last_pairs;
    cstf_lammps::Results found;
    cstf_lammps::ExchangedRows exchanged;
    bool sends_owners = false;    // whether owners are sent instead of rows
    std::vector<double> owners;   // of ghosts: rank, and index there
    std::vector<std::vector<double>> forces_of_members;  // of owned atoms
    std::vector<double> force_std;
    double largest_force_std = 0;

    bool is_ensemble() const { return members.size() > 1; }
    bool is_in_hybrid() const;
    void allocate();
    std::vector<char> read_file(const std::string& path);
    void open_model(const std::string& path);
    void check_elements(int count, char** words);
    void check_neighbour_settings();

    void find_rows();
    void find_pairs();
    void evaluate_member(int64_t member, double share);
    void check_finite(const std::string& path);
    void add_results(double share);
    void add_virials(double share);
    void sum_forces_of_ghosts();
    void find_force_std();
    int64_t index_of_row(int64_t row) const;

    static int exchange(void* self, int reverse, void* rows, int64_t width, int bytes);
    [[noreturn]] void stop(const std::string& what);      // called by all ranks
    [[noreturn]] void stop_one(const std::string& what);  // called by one
};

}  // namespace LAMMPS_NS

# zest: `make deps demo` runs the demonstration, `make deps test` all tests, `make help` lists the rest.
# Optional parts are auto (used when found), on (an error when missing) or off:  make CUDA=off

# As many jobs at once as the machine has threads; -jN on the command line counts instead.
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += -j$(shell n=$$(nproc 2>/dev/null || echo 1); [ $$n -lt 16 ] && echo $$n || echo 16)
endif

# Of several goals each gets a make of its own, one after the other, deps first. So `make deps demo` asks for compiler
# and libraries when they are installed, and `make clean all` does not build what is being removed.
goals := $(or $(MAKECMDGOALS),all)
steps := deps clean demo check test test-gpu asan tsan memcheck musl fuzz lint coverage bench install uninstall package wheel format format-check
ifneq ($(and $(word 2,$(goals)),$(filter $(steps),$(goals))),)

.PHONY: in-order $(goals)
in-order:
	+@for goal in $(filter deps,$(goals)) $(filter-out deps,$(goals)); do $(MAKE) --no-print-directory $$goal || exit; done
$(goals): in-order
	@:

else

CUDA ?= auto
CURL ?= auto
MPI  ?= auto
# codecs of Parquet files
ZLIB ?= auto
ZSTD ?= auto
# off: without the backward pass and the first-order methods, a library that only goes forward
GRAD ?= on

CC      ?= cc
CXX     ?= c++
NVCC    ?= $(or $(shell command -v nvcc),/usr/local/cuda/bin/nvcc)
PREFIX  ?= /usr/local
DESTDIR ?=
BUILD   ?= build

VERSION := $(shell sed -n 's/^\#define ZEST_VERSION "\(.*\)"/\1/p' include/zest.h)
SOVERSION := $(firstword $(subst ., ,$(VERSION)))
ARCH := $(shell uname -m)

# ---- What is there ---------------------------------------------------------------------------------------
PACKAGES   := jansson libxxhash
PKG_CONFIG ?= pkg-config
have = $(shell $(PKG_CONFIG) --exists $(1) 2>/dev/null && $(PKG_CONFIG) --modversion $(1))

# Goals that need no compiler and no library; every other goal asks for all of them before it starts.
ifneq ($(filter-out deps clean help format format-check lint coverage tsan memcheck musl uninstall,$(goals)),)
missing := $(if $(shell command -v $(firstword $(CC)) 2>/dev/null),,compiler:$(firstword $(CC))) \
           $(if $(shell command -v $(PKG_CONFIG) 2>/dev/null),,$(PKG_CONFIG)) \
           $(foreach p,$(PACKAGES) $(if $(filter test check asan test-gpu asan-build sanitized $(BUILD)/tests/%,$(goals)),cmocka),$(if $(call have,$(p)),,$(p)))
ifneq ($(strip $(missing)),)
$(error zest cannot be built yet, missing: $(strip $(missing)). Run 'make deps' first: it installs them on Debian and Ubuntu, and names the packages elsewhere)
endif
endif

found_nvcc  := $(if $(filter off,$(CUDA)),,$(shell $(NVCC) --version 2>/dev/null | sed -n 's/.*release \([0-9.]*\).*/\1/p'))
# Of Open MPI and MPICH the one that the system prefers; MPI_PACKAGE=mpich chooses. Only the headers are needed: the
# library is loaded when a launcher has started several processes.
MPI_PACKAGE ?= $(firstword $(foreach p,$(if $(filter off,$(MPI)),,mpi-c ompi-c ompi mpich),$(if $(call have,$(p)),$(p))))
found_mpi   := $(if $(filter off,$(MPI)),,$(if $(MPI_PACKAGE),$(call have,$(MPI_PACKAGE))))
found_curl  := $(if $(filter off,$(CURL)),,$(call have,libcurl))
found_zlib  := $(if $(filter off,$(ZLIB)),,$(call have,zlib))
found_zstd  := $(if $(filter off,$(ZSTD)),,$(call have,libzstd))
choice = $(if $(filter $(3),$(2)),,$(error $(1)=$(2): $(1) may be $(3)))
$(call choice,CUDA,$(CUDA),auto on off)
$(call choice,CURL,$(CURL),auto on off dlopen)
$(call choice,MPI,$(MPI),auto on off)
$(call choice,ZLIB,$(ZLIB),auto on off)
$(call choice,ZSTD,$(ZSTD),auto on off)
$(call choice,GRAD,$(GRAD),on off)
need = $(if $(and $(filter on,$(1)),$(if $(2),,missing)),$(error $(3)=on, but $(4) was not found))
$(call need,$(CUDA),$(found_nvcc),CUDA,nvcc)
$(call need,$(CURL:dlopen=on),$(found_curl),CURL,libcurl)
$(call need,$(MPI),$(found_mpi),MPI,Open MPI or MPICH)
$(call need,$(ZLIB),$(found_zlib),ZLIB,zlib)
$(call need,$(ZSTD),$(found_zstd),ZSTD,libzstd)

comma := ,

# Short lines by default; V=1 shows the commands.
V ?= 0
say = $(if $(filter 1,$(V)),,@printf '  %-4s %s\n' $(1) $(2);)

# ---- Flags ------------------------------------------------------------------------------------------------
# No fast-math, no contraction: the same bits everywhere is a promise of the library.
OPT      ?= -O2
SANITIZE ?=
WARNINGS := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Werror=pointer-arith -Wwrite-strings
CFLAGS   ?= -g
# dlopen: libcurl is loaded when it is needed, for packages that must start without it
CURL_CFLAGS := $(if $(found_curl),-DZEST_CURL $(if $(filter dlopen,$(CURL)),-DZEST_CURL_DLOPEN) $(shell $(PKG_CONFIG) --cflags libcurl))
CURL_LIBS := $(if $(found_curl),$(if $(filter dlopen,$(CURL)),-ldl,$(shell $(PKG_CONFIG) --libs libcurl)))
MPI_CFLAGS := $(if $(found_mpi),-DZEST_MPI $(shell $(PKG_CONFIG) --cflags $(MPI_PACKAGE)))
CODEC_CFLAGS := $(if $(found_zlib),-DZEST_ZLIB $(shell $(PKG_CONFIG) --cflags zlib)) \
                $(if $(found_zstd),-DZEST_ZSTD $(shell $(PKG_CONFIG) --cflags libzstd))
CODEC_LIBS := $(if $(found_zlib),$(shell $(PKG_CONFIG) --libs zlib)) $(if $(found_zstd),$(shell $(PKG_CONFIG) --libs libzstd))
ALL_CFLAGS := -std=c11 -D_GNU_SOURCE $(OPT) -ffp-contract=off -fno-math-errno -fPIC -fvisibility=hidden -fopenmp \
              $(WARNINGS) $(SANITIZE) $(CFLAGS) -Iinclude -Isrc -I. $(if $(filter off,$(GRAD)),,-DZEST_GRAD) \
              $(shell $(PKG_CONFIG) --cflags $(PACKAGES) 2>/dev/null) $(CURL_CFLAGS) $(MPI_CFLAGS) $(CODEC_CFLAGS)
LIBS     := $(shell $(PKG_CONFIG) --libs $(PACKAGES) 2>/dev/null) $(CURL_LIBS) $(CODEC_LIBS) $(if $(found_mpi),-ldl) -lm -fopenmp
TESTLIBS := $(shell $(PKG_CONFIG) --libs cmocka 2>/dev/null)

# CUDA_ARCH, a list: sm_86 is machine code for compute capability 8.6 (and for 8.7 and 8.9, not for 9.0), compute_90 is
# PTX, which the driver compiles for GPUs that are newer. By default machine code for the GPUs of this machine; where
# there is none, for all that are common (8.6 and 8.9 run 8.0's code), as far as nvcc knows them. The oldest is 8.0.
ifneq ($(found_nvcc),)
nvcc_knows := $(shell $(NVCC) --list-gpu-code 2>/dev/null)
gpus := $(sort $(shell timeout 10 nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | sed -n 's/^\([0-9]*\)\.\([0-9]\)$$/sm_\1\2/p'))
CUDA_ARCH ?= $(or $(filter-out sm_5% sm_6% sm_7%,$(filter $(nvcc_knows),$(gpus))),$(filter $(nvcc_knows) $(patsubst sm_90,compute_90,$(filter sm_90,$(nvcc_knows))),sm_80 sm_90 compute_90 sm_100 sm_120))
unknown := $(filter-out $(nvcc_knows) $(nvcc_knows:sm_%=compute_%),$(CUDA_ARCH)) $(filter sm_5% sm_6% sm_7% compute_5% compute_6% compute_7%,$(CUDA_ARCH))
ifneq ($(strip $(unknown)),)
$(error CUDA_ARCH=$(CUDA_ARCH): $(strip $(unknown)) will not do; nvcc $(found_nvcc) knows $(filter-out sm_5% sm_6% sm_7%,$(nvcc_knows)), and compute_ for each)
endif
# without any PTX: that of the last
override CUDA_ARCH := $(CUDA_ARCH) $(if $(filter compute_%,$(CUDA_ARCH)),,$(patsubst sm_%,compute_%,$(lastword $(CUDA_ARCH))))
endif
CUDA_CODE := $(foreach a,$(patsubst sm_%,%,$(filter sm_%,$(CUDA_ARCH))),-gencode arch=compute_$(a),code=sm_$(a)) \
             $(foreach a,$(filter compute_%,$(CUDA_ARCH)),-gencode arch=$(a),code=$(a))

# The run-time library is linked in, cuBLASLt is opened when a GPU is asked for: the program starts on machines that
# have neither a driver nor cuBLAS.
CUDA_HOME := $(if $(found_nvcc),$(patsubst %/bin/,%,$(dir $(realpath $(shell command -v $(NVCC))))))
CUDA_LIBS := $(if $(found_nvcc),$(or $(firstword $(wildcard $(foreach d,lib64 lib targets/$(ARCH)-linux/lib,$(CUDA_HOME)/$(d)/libcudart_static.a))),-lcudart_static) \
             -ldl -lrt -lpthread)
NVCCFLAGS := -O3 -std=c++17 -fmad=false --threads 4 -DZEST_CUDA_ARCH='"$(strip $(CUDA_ARCH))"' \
             -Xcompiler -fPIC,-fvisibility=hidden,-ffp-contract=off,-fno-threadsafe-statics,-fno-exceptions -Iinclude -Isrc \
             $(shell $(PKG_CONFIG) --cflags $(PACKAGES) 2>/dev/null)
ifneq ($(found_nvcc),)
ALL_CFLAGS += -DZEST_CUDA
LIBS += $(CUDA_LIBS)
endif

# ---- Files: folders are layers; a name's ending says which instructions a file may use -------------------
LIB_SRC := $(filter-out $(if $(filter off,$(GRAD)),src/grad/% src/baselines/%),$(wildcard src/*/*.c src/*/*/*.c))
CLI_SRC := $(wildcard cli/*.c)
TEST_SRC := $(filter-out $(if $(filter off,$(GRAD)),tests/test_grad% tests/test_optimizer%),$(wildcard tests/test_*.c))
EXAMPLE_SRC := $(wildcard examples/*.c)
BENCH_BIN := $(patsubst %.c,$(BUILD)/%,$(filter-out $(if $(filter off,$(GRAD)),bench/estimates.c bench/grad.c bench/optimizers.c),$(wildcard bench/*.c)))
CUDA_SRC := $(if $(found_nvcc),$(filter-out $(if $(filter off,$(GRAD)),src/grad/% src/baselines/%),$(wildcard src/*/cuda/*.cu src/*/*/cuda/*.cu)))
LIB_OBJ := $(LIB_SRC:%.c=$(BUILD)/%.o) $(CUDA_SRC:%.cu=$(BUILD)/%.cuda.o)
CLI_OBJ := $(CLI_SRC:%.c=$(BUILD)/%.o)
TEST_BIN := $(TEST_SRC:%.c=$(BUILD)/%)
PROGRAM_BIN := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/programs/*.c))
FUZZ_BIN := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/fuzz/fuzz_*.c))
EXAMPLE_BIN := $(EXAMPLE_SRC:%.c=$(BUILD)/%)
CUDA_TESTS := $(if $(found_nvcc),$(patsubst %.cu,$(BUILD)/%,$(wildcard tests/cuda/*.cu)))
# the program with a CUDA run-time library that needs no GPU (tests/cuda/mock/mock.h)
CUDA_MOCK := $(if $(found_nvcc),$(BUILD)/tests/cuda/zest_mock)

.DELETE_ON_ERROR:
.SECONDARY:
.PHONY: all found deps demo test check test-gpu asan tsan memcheck musl fuzz lint coverage faults bench install uninstall package wheel clean format format-check help lib

all: found zest lib
lib: $(BUILD)/libzest.a $(BUILD)/libzest.so

found:
	@echo "zest $(VERSION) with:"; \
	echo "  compiler  $(compiler)"; \
	echo "  jansson   $(call have,jansson)"; \
	echo "  xxhash    $(call have,libxxhash)"; \
	echo "  openmp    yes"; \
	echo "  gradients $(if $(filter off,$(GRAD)),off: forward passes alone,on)"; \
	echo "  cuda      $(if $(found_nvcc),nvcc $(found_nvcc): --device cuda$(comma) kernels for $(strip $(CUDA_ARCH)),$(if $(filter off,$(CUDA)),off,not found))"; \
	echo "  curl      $(if $(found_curl),$(found_curl),$(if $(filter off,$(CURL)),off,not found))"; \
	echo "  parquet   snappy, lz4, $(if $(found_zlib),gzip (zlib $(found_zlib)),no gzip: zlib $(if $(filter off,$(ZLIB)),off,not found)), $(if $(found_zstd),zstd ($(found_zstd)),no zstd: libzstd $(if $(filter off,$(ZSTD)),off,not found))"; \
	echo "  mpi       $(if $(found_mpi),$(if $(findstring openmpi,$(MPI_CFLAGS)),Open MPI,$(if $(findstring mpich,$(MPI_CFLAGS)),MPICH,$(MPI_PACKAGE))) $(found_mpi): mpirun -n N zest train$(comma) loaded when it is used,$(if $(filter off,$(MPI)),off,not found))"

# What objects were made with is kept in files that they depend on: after a change of CUDA=, GRAD=, CURL=, CC= or
# CFLAGS= they are made again. Old and new ones are never linked together.
compiler       := $(shell $(CC) --version 2>/dev/null | head -n 1)
compile_record  = $(CC) $(compiler) $(ALL_CFLAGS)
cuda_record     = $(NVCC) $(found_nvcc) $(CUDA_CODE) $(NVCCFLAGS)
link_record     = $(CC) $(ALL_CFLAGS) $(LDFLAGS) $(LIB_OBJ) $(LIBS) $(TESTLIBS)
define record
ifneq ($$(strip $$($(1)_record)),$$(shell cat $(BUILD)/$(1).flags 2>/dev/null))
$(BUILD)/$(1).flags: FORCE
endif
$(BUILD)/$(1).flags: export RECORD = $$(strip $$($(1)_record))
$(BUILD)/$(1).flags:
	@mkdir -p $$(@D) && printf '%s\n' "$$$$RECORD" >$$@
endef
$(foreach kind,compile cuda link,$(eval $(call record,$(kind))))
.PHONY: FORCE
FORCE:

objects = $(filter %.o,$^) $(filter %.a,$^)
link = $(call say,LINK,$@)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $(objects)

$(BUILD)/zest: $(CLI_OBJ) $(BUILD)/libzest.a $(BUILD)/link.flags
	$(link) $(LIBS)

# ./zest is the program of the last build, whichever folder that was in.
zest: $(BUILD)/zest FORCE
	@cmp -s $< $@ || { rm -f $@; cp $< $@; }

$(BUILD)/libzest.a: $(LIB_OBJ) $(BUILD)/link.flags
	@rm -f $@
	$(call say,AR,$@)ar rcs $@ $(objects)

$(BUILD)/libzest.so.$(SOVERSION): $(LIB_OBJ) $(BUILD)/link.flags
	$(link) -shared -Wl,-soname,libzest.so.$(SOVERSION) -Wl,--no-undefined $(LIBS)

$(BUILD)/libzest.so: $(BUILD)/libzest.so.$(SOVERSION)
	@ln -sf $(notdir $<) $@

# The kernels gain from -O3; vector code is compiled for its instruction set and chosen at run time.
$(BUILD)/src/rng/%.o $(BUILD)/src/kernels/%.o $(BUILD)/src/grad/%.o: OPT := $(OPT:-O2=-O3)
ifneq ($(filter x86_64,$(ARCH)),)
AVX512 := -mavx512f -mavx512dq -mavx512vl -mavx512bw -mfma -mf16c -mprefer-vector-width=512
$(BUILD)/%_avx2.o: TARGET := -mavx2 -mfma -mf16c
$(BUILD)/%_avx512.o: TARGET := $(AVX512)
$(BUILD)/%_avx512bf16.o: TARGET := $(AVX512) -mavx512bf16 -mavx512vnni
$(BUILD)/%_amx.o: TARGET := $(AVX512) -mavx512bf16 -mamx-tile -mamx-bf16
endif

$(BUILD)/%.o: %.c Makefile $(BUILD)/compile.flags
	@mkdir -p $(@D)
	$(call say,CC,$<)$(CC) $(ALL_CFLAGS) $(if $(filter -O3,$(OPT)),-O3) $(TARGET) -MMD -MP -c -o $@ $<

# Instructions that compute capability 9.0 alone has: code that no other GPU runs, chosen at run time.
ifneq ($(and $(filter sm_90,$(CUDA_ARCH)),$(filter-out 11.% 12.0 12.1 12.2 12.3 12.4,$(found_nvcc))),)
$(BUILD)/%_sm90a.cuda.o: CUDA_CODE := -DZEST_SM90A -gencode arch=compute_90a,code=sm_90a
endif
$(BUILD)/%.cuda.o: %.cu Makefile $(BUILD)/cuda.flags
	@mkdir -p $(@D)
	$(call say,NVCC,$<)$(NVCC) $(CUDA_CODE) $(NVCCFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/tests/%: $(BUILD)/tests/%.o $(BUILD)/tests/support.o $(BUILD)/libzest.a $(BUILD)/link.flags
	$(link) $(TESTLIBS) $(LIBS)

# fuzz targets without libFuzzer: seeds, a corpus and some mutants
FUZZ_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(filter-out tests/fuzz/fuzz_%,$(wildcard tests/fuzz/*.c)))
$(BUILD)/tests/fuzz/fuzz_%: $(BUILD)/tests/fuzz/fuzz_%.o $(FUZZ_OBJ) $(BUILD)/libzest.a $(BUILD)/link.flags
	$(link) $(LIBS)

# tests that use parts of the fuzz targets or of the program
$(BUILD)/tests/test_hostile_classes: $(BUILD)/tests/fuzz/seeds.o $(BUILD)/tests/fuzz/mutate.o $(BUILD)/tests/fuzz/mutate_binary.o \
    $(BUILD)/tests/fuzz/mutate_protobuf.o
$(BUILD)/tests/test_progress: $(BUILD)/cli/progress.o

$(BUILD)/bench/%: $(BUILD)/bench/%.o $(BUILD)/libzest.a $(BUILD)/link.flags
	$(link) $(LIBS)

$(BUILD)/tests/programs/%: $(BUILD)/tests/programs/%.o $(BUILD)/libzest.a $(BUILD)/link.flags
	$(link) $(LIBS)

$(BUILD)/examples/%: $(BUILD)/examples/%.o $(BUILD)/libzest.a $(BUILD)/link.flags
	$(link) $(LIBS)

$(BUILD)/tests/cuda/%: tests/cuda/%.cu $(BUILD)/libzest.a $(BUILD)/cuda.flags $(BUILD)/link.flags
	@mkdir -p $(@D)
	$(call say,NVCC,$<)$(NVCC) -O2 -std=c++17 $(CUDA_CODE) -Xcompiler -ffp-contract=off -Iinclude -Isrc -o $@ $< $(BUILD)/libzest.a $(patsubst -fopenmp,-Xcompiler -fopenmp,$(filter-out -Wl$(comma)%,$(LIBS)))

MOCK_SRC := $(wildcard tests/cuda/mock/*.c)
$(BUILD)/tests/cuda/libmock_cuda.so: $(MOCK_SRC) tests/cuda/mock/mock.h $(BUILD)/compile.flags
	@mkdir -p $(@D)
	$(call say,CC,$@)$(CC) -std=c11 -D_GNU_SOURCE -O1 -g -fPIC -shared -Wl,-soname,libmock_cuda.so $(WARNINGS) -I. \
	    -isystem $(CUDA_HOME)/include -o $@ $(MOCK_SRC) -ldl

$(BUILD)/tests/cuda/zest_mock: $(CLI_OBJ) $(BUILD)/libzest.a $(BUILD)/tests/cuda/libmock_cuda.so $(BUILD)/link.flags
	$(link) $(BUILD)/tests/cuda/libmock_cuda.so -Wl,-rpath,'$$ORIGIN' $(filter-out %libcudart_static.a -lcudart_static,$(LIBS))

-include $(LIB_OBJ:.o=.d) $(CLI_OBJ:.o=.d) $(TEST_BIN:=.d) $(EXAMPLE_BIN:=.d) $(FUZZ_BIN:=.d) $(FUZZ_OBJ:.o=.d) $(BUILD)/tests/support.d

# ---- What people run --------------------------------------------------------------------------------------
deps:
	@sh tools/deps.sh

demo: all
	@sh tools/demo.sh

# Tests in tiers; tests/run.sh says what each has.
TESTED := $(TEST_BIN) $(PROGRAM_BIN) $(EXAMPLE_BIN) $(FUZZ_BIN)
ASAN   := build/asan
run_tests = BUILD=$(BUILD) ASAN=$(ASAN) ZEST=./zest TESTS="$(notdir $(TEST_BIN))" CC="$(CC)" CXX="$(CXX)" LIBS="$(LIBS)" sh tests/run.sh

check: all $(TESTED)
	@$(run_tests) check

test: all $(TESTED) $(BENCH_BIN) $(CUDA_TESTS) $(CUDA_MOCK) asan-build
	@$(run_tests) test

asan: asan-build
	@$(run_tests) asan

test-gpu: all $(TEST_BIN) $(CUDA_TESTS)
	@$(if $(found_nvcc),,echo "make test-gpu needs nvcc: 'make deps' says where to get it" >&2; exit 1;) $(run_tests) gpu

# A build of its own with AddressSanitizer and UndefinedBehaviorSanitizer; at -O1 the tests would take twice as long.
.PHONY: asan-build sanitized
asan-build:
	@$(MAKE) --no-print-directory BUILD=$(ASAN) CUDA=off sanitized \
	    SANITIZE="-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer"
sanitized: $(BUILD)/zest $(TESTED)

# libFuzzer on everything that reads bytes from outside: FUZZ_SECONDS for each target.
FUZZ_SECONDS ?= 30
fuzz:
	@sh tests/fuzz/run.sh $(FUZZ_SECONDS)

# The whole crash harness; takes an hour on an idle core. tests/cli/faults.sh has the short form.
faults: all $(PROGRAM_BIN)
	@sh tests/faults/run.sh full
	@sh tests/faults/allocations.sh
	@sh tests/faults/kills.sh 1000
	@sh tests/faults/ranks.sh 100 || [ $$? -eq 77 ]
	@sh tests/faults/soak.sh
	@BUILD=$(BUILD) sh tests/faults/long.sh

# Races between threads; memory that nothing was written to; another C library: each on a part of the tests.
tsan:
	@sh tools/tsan.sh
memcheck:
	@sh tools/memcheck.sh
musl:
	@sh tools/musl.sh

# Static analysis: clang-tidy and cppcheck.
lint:
	@sh tools/lint.sh
# Lines that no test reaches.
coverage:
	@sh tools/coverage.sh

bench: all $(BENCH_BIN)
	@sh bench/run.sh

docs/zest.1: zest
	./zest manual > $@

HEADERS := include/zest.h include/zest_lm.h include/zest_theory.h
COMPLETIONS := bash-completion/completions/zest zsh/site-functions/_zest

install: all docs/zest.1
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/pkgconfig $(DESTDIR)$(PREFIX)/include \
	    $(addprefix $(DESTDIR)$(PREFIX)/share/,man/man1 $(dir $(COMPLETIONS)))
	install -m 755 zest $(DESTDIR)$(PREFIX)/bin/zest
	install -m 644 $(HEADERS) $(DESTDIR)$(PREFIX)/include
	install -m 644 $(BUILD)/libzest.a $(DESTDIR)$(PREFIX)/lib/libzest.a
	install -m 755 $(BUILD)/libzest.so.$(SOVERSION) $(DESTDIR)$(PREFIX)/lib/libzest.so.$(SOVERSION)
	ln -sf libzest.so.$(SOVERSION) $(DESTDIR)$(PREFIX)/lib/libzest.so
	install -m 644 docs/zest.1 $(DESTDIR)$(PREFIX)/share/man/man1/zest.1
	./zest completion bash > $(DESTDIR)$(PREFIX)/share/$(word 1,$(COMPLETIONS))
	./zest completion zsh > $(DESTDIR)$(PREFIX)/share/$(word 2,$(COMPLETIONS))
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' -e 's|@OPTIONAL@|$(strip $(CUDA_LIBS) $(CURL_LIBS) $(CODEC_LIBS))|' \
	    tools/zest.pc.in \
	    > $(DESTDIR)$(PREFIX)/lib/pkgconfig/zest.pc

uninstall:
	rm -f $(addprefix $(DESTDIR)$(PREFIX)/,bin/zest $(HEADERS) lib/libzest.a lib/libzest.so \
	    lib/libzest.so.$(SOVERSION) lib/pkgconfig/zest.pc share/man/man1/zest.1 $(addprefix share/,$(COMPLETIONS)))

# Packages of the CPU program, in build/packages.
package:
	@CC="$(CC)" sh tools/package.sh deb portable
wheel:
	@CC="$(CC)" sh tools/package.sh wheel

FORMATTED = $(shell find include src cli tests examples bench -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh')
format:
	@clang-format -i $(FORMATTED)
format-check:
	@clang-format --dry-run --Werror $(FORMATTED)

clean:
	rm -rf build zest demo-out

help:
	@echo "make deps          install what is missing (Debian, Ubuntu; elsewhere: says what)"
	@echo "make               build ./zest, build/libzest.a and build/libzest.so, and print what was found"
	@echo "make demo          the demonstration: a small model learns, in a minute or two"
	@echo "make check         the tests for after every change"
	@echo "make test          all tests: every instruction set, install, sanitizers, GPU where there is one"
	@echo "make test-gpu      the tests that use a GPU; they fail without one"
	@echo "make asan          the tests of check under ASan and UBSan"
	@echo "make fuzz          libFuzzer on what reads files, FUZZ_SECONDS=$(FUZZ_SECONDS) for each target"
	@echo "make faults        every file operation and every allocation of small runs fails once; kills; long runs"
	@echo "make lint          clang-tidy 14 and cppcheck          make coverage       lines that no test reaches (gcovr)"
	@echo "make tsan          tests under ThreadSanitizer          make memcheck       tests under valgrind"
	@echo "make musl          tests with musl in place of glibc"
	@echo "make bench         benchmarks"
	@echo "make format        clang-format on all files           make format-check   only look"
	@echo "make docs/zest.1   the manual page"
	@echo "make install       PREFIX=$(PREFIX) DESTDIR=           make uninstall"
	@echo "make package       a .deb and a portable archive of the CPU program; make wheel: a Python wheel"
	@echo "make clean         remove build, zest and demo-out"
	@echo "sh tools/fresh.sh  make deps demo and make deps check on a clean Debian, as root"
	@echo "sh tools/package_test.sh  make package wheel, each package tried on a clean Debian, as root"
	@echo "Several goals run one after the other, deps first: make deps demo"
	@echo "Optional parts, each auto|on|off: CUDA=$(CUDA) (GPUs) CURL=$(CURL) (zest pull; dlopen: load libcurl at run time)"
	@echo "                   MPI=$(MPI) (several processes; MPI_PACKAGE= names the one of several)"
	@echo "                   ZLIB=$(ZLIB) ZSTD=$(ZSTD) (Parquet files with these codecs)"
	@echo "GRAD=$(GRAD)            on|off: the first-order methods"
	@echo "CUDA_ARCH=         GPUs to build for, as in CUDA_ARCH=\"sm_80 sm_90 compute_90\"; default: those of this machine"
	@echo "CC= CFLAGS= LDFLAGS= NVCC= BUILD=$(BUILD)     V=1 shows the commands, -jN how many at once"
endif

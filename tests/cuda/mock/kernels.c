/* Which kernels there are, and the sizes of their parameters, from the machine code in the program: every cubin has a
 * section .nv.info.<kernel> whose records of kind EIATTR_KPARAM_INFO say number, offset and size of each parameter.
 * nvcc compresses cubins with zstd. Without libzstd.so.1 parameters are not in the trace, and the trace says so. */
#include "tests/cuda/mock/mock.h"

#include <dlfcn.h>
#include <elf.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_KERNELS = 1024, MAX_FATBINS = 64, MAX_CUBINS = 8 };

static mock_kernel kernels[MAX_KERNELS];
static unsigned kernel_count;

/* A fat binary, and its cubins once they are unpacked. */
static struct {
    const void *data;
    int unpacked, count;
    struct {
        const unsigned char *data;
        void *owned;
        size_t size;
    } cubin[MAX_CUBINS];
} fatbins[MAX_FATBINS];
static unsigned fatbin_count;

/* ---- Registration ---- */

typedef struct {
    int magic, version;
    const void *data;
    void *more;
} fatbin_wrapper;

void **__cudaRegisterFatBinary(void *wrapper);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int external, size_t size,
                       int constant, int global);
void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int threads,
                            uint3 *tid, uint3 *bid, dim3 *block, dim3 *grid, int *warp);
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *host);

void **__cudaRegisterFatBinary(void *wrapper) {
    if (fatbin_count == MAX_FATBINS) abort();
    fatbins[fatbin_count].data = ((const fatbin_wrapper *)wrapper)->data;
    return (void **)&fatbins[fatbin_count++].data;
}

void __cudaRegisterFatBinaryEnd(void **handle) { (void)handle; }

void __cudaUnregisterFatBinary(void **handle) {
    for (unsigned i = 0; i < fatbin_count; i++)
        for (int c = 0; (void **)&fatbins[i].data == handle && c < fatbins[i].count; c++) {
            free(fatbins[i].cubin[c].owned);
            fatbins[i].cubin[c].owned = NULL;
        }
}

void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int external, size_t size,
                       int constant, int global) {
    (void)handle, (void)host, (void)device, (void)name, (void)external, (void)size, (void)constant,
        (void)global;
}

void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int threads,
                            uint3 *tid, uint3 *bid, dim3 *block, dim3 *grid, int *warp) {
    (void)device, (void)threads, (void)tid, (void)bid, (void)block, (void)grid, (void)warp;
    if (kernel_count == MAX_KERNELS) abort();
    kernels[kernel_count++] = (mock_kernel){.host = host, .fatbin = handle, .name = name};
}

cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *host) {
    *kernel = (cudaKernel_t)mock_kernel_of(host);
    return *kernel ? cudaSuccess : cudaErrorInvalidDeviceFunction;
}

mock_kernel *mock_kernel_of(const void *host) {
    for (unsigned i = 0; i < kernel_count; i++)
        if (kernels[i].host == host || &kernels[i] == host) return &kernels[i];
    return NULL;
}

/* ---- Parameters ---- */

static size_t unpack(const unsigned char *from, size_t left, unsigned char **out) {
    static size_t (*frame_size)(const void *, size_t), (*decompress)(void *, size_t, const void *, size_t);
    static unsigned long long (*content_size)(const void *, size_t);
    static unsigned (*is_error)(size_t);
    static int looked;
    if (!looked++) {
        void *library = dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL);
        if (library) {
            *(void **)&frame_size = dlsym(library, "ZSTD_findFrameCompressedSize");
            *(void **)&decompress = dlsym(library, "ZSTD_decompress");
            *(void **)&content_size = dlsym(library, "ZSTD_getFrameContentSize");
            *(void **)&is_error = dlsym(library, "ZSTD_isError");
        }
    }
    if (!frame_size || !decompress || !content_size || !is_error) return 0;
    unsigned long long size = content_size(from, left);
    size_t packed = frame_size(from, left);
    if (size > (unsigned long long)1 << 30 || is_error(packed) || !(*out = malloc(size + 1))) return 0;
    size_t done = decompress(*out, size, from, packed);
    if (!is_error(done) && done == size) return done;
    free(*out);
    return 0;
}

static void unpack_all(unsigned index) {
    const unsigned char *at = fatbins[index].data;
    uint64_t size; /* magic, version, size of the header (16 bits each); size of what follows */
    if (fatbins[index].unpacked++ || !at) return;
    memcpy(&size, at + 8, 8);
    const unsigned char *end = at + 16 + size;
    for (; at + 4 <= end && fatbins[index].count < MAX_CUBINS; at += 4) {
        unsigned char *owned = NULL;
        const int plain = !memcmp(at, "\177ELF", 4);
        size_t bytes = plain                                ? (size_t)(end - at)
                       : !memcmp(at, "\x28\xb5\x2f\xfd", 4) ? unpack(at, (size_t)(end - at), &owned)
                                                            : 0;
        if (!bytes) continue;
        if (!plain && (bytes < 64 || memcmp(owned, "\177ELF", 4))) { /* PTX */
            free(owned);
            continue;
        }
        const int c = fatbins[index].count++;
        fatbins[index].cubin[c].data = plain ? at : owned;
        fatbins[index].cubin[c].owned = owned, fatbins[index].cubin[c].size = bytes;
    }
}

/* Records of a section .nv.info.<kernel>: format and kind (a byte each), then 16 bits of value, or with format 4 the
 * size of what follows. EIATTR_KPARAM_INFO: index of the table (32 bits), number and offset (16 each), and 32 bits of
 * which the upper 14 are the size. */
static void read_info(mock_kernel *kernel, const unsigned char *at, size_t size) {
    enum { FORMAT_SIZED = 4, KIND_PARAMETER = 0x17 };
    for (size_t i = 0; i + 4 <= size;) {
        uint16_t bytes;
        memcpy(&bytes, at + i + 2, 2);
        if (at[i] == FORMAT_SIZED && at[i + 1] == KIND_PARAMETER && bytes >= 12 && i + 4 + bytes <= size) {
            uint16_t number, offset;
            uint32_t flags;
            memcpy(&number, at + i + 8, 2), memcpy(&offset, at + i + 10, 2), memcpy(&flags, at + i + 12, 4);
            if (number < 16) {
                kernel->parameter[number].offset = offset, kernel->parameter[number].size = flags >> 18;
                if (number >= kernel->parameters) kernel->parameters = number + 1u;
            }
        }
        i += 4 + (at[i] == FORMAT_SIZED ? bytes : 0);
    }
}

static int read_cubin(mock_kernel *kernel, const unsigned char *cubin, size_t size) {
    Elf64_Ehdr header;
    memcpy(&header, cubin, sizeof header);
    if (header.e_shoff + (uint64_t)header.e_shnum * sizeof(Elf64_Shdr) > size) return 0;
    const Elf64_Shdr *sections = (const Elf64_Shdr *)(const void *)(cubin + header.e_shoff);
    const char *names = (const char *)cubin + sections[header.e_shstrndx].sh_offset;
    for (unsigned i = 0; i < header.e_shnum; i++) {
        const char *name = names + sections[i].sh_name;
        if (strncmp(name, ".nv.info.", 9) || strcmp(name + 9, kernel->name)) continue;
        if (sections[i].sh_offset + sections[i].sh_size > size) return 0;
        read_info(kernel, cubin + sections[i].sh_offset, sections[i].sh_size);
        return 1;
    }
    return 0;
}

void mock_kernel_parameters(mock_kernel *kernel) {
    if (kernel->known) return;
    kernel->known = -1;
    for (unsigned i = 0; i < fatbin_count; i++) {
        if ((const void *)&fatbins[i].data != kernel->fatbin) continue;
        unpack_all(i);
        for (int c = 0; c < fatbins[i].count && kernel->known < 0; c++)
            if (read_cubin(kernel, fatbins[i].cubin[c].data, fatbins[i].cubin[c].size)) kernel->known = 1;
    }
}

/* A memory handler of NumPy (NEP 49) whose blocks lie against a page that must not be touched.
   A block: a page with its length and size, a fence, the data, a fence. The data begin in the page after the first
   fence, and lie against that fence (AT_END 0) or against the second one (AT_END 1). */

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096UL

struct header { size_t length, size; };

static struct header *header_of(void *data)
{
    return (struct header *)(((uintptr_t)data & ~(PAGE - 1)) - 2 * PAGE);
}

static void *fenced_malloc(void *context, size_t size)
{
    size_t pages = (size + PAGE - 1) / PAGE * PAGE;
    char *base = mmap(NULL, pages + 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        return NULL;
    *(struct header *)base = (struct header){pages + 3 * PAGE, size};
    if (mprotect(base + PAGE, PAGE, PROT_NONE) || mprotect(base + 2 * PAGE + pages, PAGE, PROT_NONE)) {
        munmap(base, pages + 3 * PAGE);
        return NULL;
    }
    char *data = base + 2 * PAGE + (AT_END ? pages - size : 0);
    return memset(data, 0xff, size); /* NaN: what is read before it is written shows */
}

static void *fenced_calloc(void *context, size_t count, size_t each)
{
    void *data = fenced_malloc(context, count * each);
    return data ? memset(data, 0, count * each) : NULL;
}

static void fenced_free(void *context, void *data, size_t size)
{
    if (data)
        munmap(header_of(data), header_of(data)->length);
}

static void *fenced_realloc(void *context, void *data, size_t size)
{
    void *other = fenced_malloc(context, size);
    if (data && other) {
        size_t former = header_of(data)->size;
        memcpy(other, data, former < size ? former : size);
        fenced_free(context, data, former);
    }
    return other;
}

struct {
    char name[127];
    uint8_t version;
    void *context, *malloc, *calloc, *realloc, *free;
} fence_handler = {"fence", 1, NULL, fenced_malloc, fenced_calloc, fenced_realloc, fenced_free};

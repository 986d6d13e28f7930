/* macho LIBRARY < LINES: load a library for macOS on x86-64 into a process of Linux, translate all lines with the model
   inside, and print score and text of each. It places the segments, and does what rebase and bind opcodes say (mach-o/
   loader.h of Apple); functions of the system are those of Linux, but where macOS has others. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "translator.h"

static char *file, *image;
static uint64_t segments[16];
static const uint32_t *symbols;

static void fail(const char *what, const char *which) {
  fprintf(stderr, "%s%s\n", what, which);
  exit(1);
}

/* ------------------------------------------------------------ functions of macOS */

static int *error_of_thread(void) { return &errno; }
static void *variables_of_thread(void) {
  static _Thread_local char *found;
  return found ? found : (found = calloc(1, 4096));
}
__attribute__((used)) static char *variable(const uint64_t *about) { return (char *)variables_of_thread() + about[2]; }
static int sysctl_by_name(const char *name, int *value) { return *value = !strcmp(name, "hw.optional.avx2_0"), 0; }
static void fill(char *to, const char *pattern, size_t size) {
  for (size_t i = 0; i < size; i++) to[i] = pattern[i % 16];
}
/* A variable's address, with all registers as they were; jumps with the 37 words that macOS has for them. */
__asm__(
    "thunk:\n push %rbx\n push %rcx\n push %rdx\n push %rsi\n push %rdi\n push %r8\n push %r9\n push %r10\n push %r11\n"
    " mov %rsp, %rbx\n sub $512, %rsp\n and $-64, %rsp\n fxsave (%rsp)\n call variable\n fxrstor (%rsp)\n mov %rbx, %rsp\n"
    " pop %r11\n pop %r10\n pop %r9\n pop %r8\n pop %rdi\n pop %rsi\n pop %rdx\n pop %rcx\n pop %rbx\n ret\n"
    "keep:\n mov %rbx, (%rdi)\n mov %rbp, 8(%rdi)\n mov %r12, 16(%rdi)\n mov %r13, 24(%rdi)\n mov %r14, 32(%rdi)\n"
    " mov %r15, 40(%rdi)\n lea 8(%rsp), %rax\n mov %rax, 48(%rdi)\n mov (%rsp), %rax\n mov %rax, 56(%rdi)\n"
    " xor %eax, %eax\n ret\n"
    "jump:\n mov %esi, %eax\n mov (%rdi), %rbx\n mov 8(%rdi), %rbp\n mov 16(%rdi), %r12\n mov 24(%rdi), %r13\n"
    " mov 32(%rdi), %r14\n mov 40(%rdi), %r15\n mov 48(%rdi), %rsp\n jmp *56(%rdi)\n");
void thunk(void), keep(void), jump(void);

static uint64_t address_of(const char *name) {
  const struct { const char *name; void *at; } own[] = {
      {"___error", error_of_thread}, {"__tlv_bootstrap", thunk}, {"_setjmp", keep}, {"_longjmp", jump},
      {"_sysctlbyname", sysctl_by_name}, {"_memset_pattern16", fill}, {"___bzero", bzero},
      /* of files, and bound one by one on a Mac: not called here */
      {"_open", abort}, {"_close", abort}, {"_fstat$INODE64", abort}, {"dyld_stub_binder", abort}};
  for (size_t i = 0; i < sizeof own / sizeof *own; i++)
    if (!strcmp(own[i].name, name)) return (uint64_t)own[i].at;
  void *at = dlsym(RTLD_DEFAULT, name + 1);
  if (!at) fail("no function ", name);
  return (uint64_t)at;
}

/* ------------------------------------------------------------ opcodes */

static uint64_t number(const uint8_t **at) {
  uint64_t found = 0;
  for (int shift = 0;; shift += 7) {
    found |= (uint64_t)(**at & 127) << shift;
    if (!(*(*at)++ & 128)) return found;
  }
}

static uint64_t moved(uint64_t at, uint64_t count, uint64_t skip) {
  for (; count--; at += 8 + skip) *(uint64_t *)(image + at) += (uint64_t)image;
  return at;
}

static void rebase(const uint8_t *at, const uint8_t *end) {
  for (uint64_t place = 0, count; at < end;) {
    int code = *at >> 4, small = *at & 15;
    at++;
    if (code == 2) place = segments[small] + number(&at);
    else if (code == 3) place += number(&at);
    else if (code == 4) place += 8 * small;
    else if (code == 5) place = moved(place, small, 0);
    else if (code == 6) place = moved(place, number(&at), 0);
    else if (code == 7) place = moved(place, 1, number(&at));
    else if (code == 8) count = number(&at), place = moved(place, count, number(&at));
    else if (code > 1) fail("unknown opcode of a rebase", "");
  }
}

static void bind(const uint8_t *at, const uint8_t *end) {
  const char *name = "";
  for (uint64_t place = 0; at < end;) {
    int code = *at >> 4, small = *at & 15;
    at++;
    if (code == 2 || code == 6) number(&at);
    else if (code == 4) name = (const char *)at, at += strlen(name) + 1;
    else if (code == 7) place = segments[small] + number(&at);
    else if (code == 8) place += number(&at);
    else if (code >= 9 && code <= 11) {
      *(uint64_t *)(image + place) = address_of(name);
      place += 8 + (code == 10 ? number(&at) : code == 11 ? 8 * (uint64_t)small : 0);
    } else if (code > 5) fail("unknown opcode of a binding", "");
  }
}

static void *exported(const char *name) {
  for (uint32_t i = 0; i < symbols[3]; i++) {
    const char *one = file + symbols[2] + 16 * i;
    int is_seen = (one[4] & 0x1f) == 0x0f; /* N_SECT, N_EXT, and not N_PEXT */
    if (is_seen && !strcmp(file + symbols[4] + *(uint32_t *)one, name)) return image + *(uint64_t *)(one + 8);
  }
  return fail("no symbol ", name), NULL;
}

int main(int argc, char **argv) {
  enum { ROOM = 1 << 28 };
  FILE *given = argc == 2 ? fopen(argv[1], "rb") : NULL;
  file = malloc(ROOM);
  if (!given || !file || !fread(file, 1, ROOM, given)) fail("no library", "");
  image = mmap(NULL, ROOM, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const uint32_t *info = NULL, *one = (uint32_t *)(file + 32);
  for (uint32_t n = ((uint32_t *)file)[4], s = 0; n--; one = (uint32_t *)((char *)one + one[1])) {
    const uint64_t *at = (uint64_t *)(one + 6);
    if (one[0] == 0x19) memcpy(image + (segments[s++] = at[0]), file + at[2], at[3]);
    if (one[0] == 0x80000022) info = one;
    if (one[0] == 2) symbols = one;
  }
  if (!info || !symbols) fail("a library without symbols", "");
  const uint8_t *bytes = (uint8_t *)file;
  rebase(bytes + info[2], bytes + info[2] + info[3]);
  bind(bytes + info[4], bytes + info[4] + info[5]);
  bind(bytes + info[8], bytes + info[8] + info[9]);
  __typeof__(nmt_load) *load = exported("_nmt_load");
  __typeof__(nmt_translate) *translate = exported("_nmt_translate");
  static char *lines[100000];
  size_t count = 0, room = 0;
  for (ssize_t size; (size = getline(&lines[count], &room, stdin)) > 0; room = 0) lines[count++][size - 1] = 0;
  nmt_model *model;
  const nmt_results *found;
  char error[NMT_ERROR_SIZE];
  if (load(NULL, "none", &model, error) != NMT_WRONG_ARGUMENT) fail("not refused", "");
  fprintf(stderr, "%s\n", error);
  if (load(NULL, NULL, &model, error)) fail(error, "");
  if (translate(model, (const char *const *)lines, NULL, count, NULL, &found, error)) fail(error, "");
  for (size_t i = 0; i < count; i++)
    for (size_t k = 0; k < found->lines[i].count; k++)
      printf("%a %s\n", found->lines[i].translations[k].score, found->lines[i].translations[k].text);
}

// The register tiles of AVX2 and AVX-512: every instance of
//
//   void tile(const Tile& t)                                       (System V: t in rdi)
//
// that TileSet::run lists, as described in tile.h. Assembly, because compilers keep neither the sums
// in registers nor the bookkeeping out of the loop (docs/design/speed.md has the measurements). The
// macros below are a generator: one text for all shapes, expanded by the assembler.
//
// Vector registers: sums [row][vector] first, then a step's vectors of B, then a value of A.
// General registers:
//   rdi  the Tile                          rax rbx rdx rbp r12   rows 0, 3, 6, 9, 12 of A
//   r8   A of the group                    r11  A's distance between rows, in bytes
//   r9   B of the group                    r10  B of this step
//   rsi  the next tap                      rcx  steps left
//   r14  what is read ahead next           r13 r15  its second line, and its pace
//   [rsp] groups left                      [rsp + 8] taps left
#include "stretto/kernels/simd/tile_assembly.h"

#if STRETTO_TILE_ASSEMBLY

#ifdef __CET__
#include <cet.h>
#else
#define _CET_ENDBR
#endif

#define STRETTO_TILE_FIELD(name, offset) .set field_##name, offset
#include "stretto/kernels/simd/tile_fields.inc"

  .intel_syntax noprefix
  .altmacro
  .text

// Instructions whose register numbers are computed: `%(expression)` at the call.
.macro load vec, to, base, disp
  vmovups \vec\to, [\base + \disp]
.endm
.macro store vec, from, base, disp
  vmovups [\base + \disp], \vec\from
.endm
.macro copy vec, to, from
  vmovaps \vec\to, \vec\from
.endm
.macro clear to
  vxorps xmm\to, xmm\to, xmm\to
.endm
.macro multiply_add vec, sum, a, b
  vfmadd231ps \vec\sum, \vec\a, \vec\b
.endm
.macro broadcast vec, to, base, disp
  vbroadcastss \vec\to, [\base + \disp]
.endm
.macro set_bound vec, to, field
  vbroadcastss \vec\to, [rdi + field_\field]
.endm
.macro fetch vec, unused, base, disp
  prefetcht0 [\base + \disp]
.endm
.macro add_from vec, sum, base, disp
  vaddps \vec\sum, \vec\sum, [\base + \disp]
.endm
// NaN in the sum stays: x86 returns the second source when one is NaN.
.macro at_least vec, sum, bound
  vmaxps \vec\sum, \vec\bound, \vec\sum
.endm
.macro at_most vec, sum, bound
  vminps \vec\sum, \vec\bound, \vec\sum
.endm

// `op vec, to, address, disp` for the address of A's `row`. Three rows share a pointer: x86 adds an
// index once or twice for nothing.
.macro with_row op, vec, to, row, disp
  .if \row == 0
    \op \vec, \to, rax, \disp
  .elseif \row == 1
    \op \vec, \to, rax+r11, \disp
  .elseif \row == 2
    \op \vec, \to, rax+r11*2, \disp
  .elseif \row == 3
    \op \vec, \to, rbx, \disp
  .elseif \row == 4
    \op \vec, \to, rbx+r11, \disp
  .elseif \row == 5
    \op \vec, \to, rbx+r11*2, \disp
  .elseif \row == 6
    \op \vec, \to, rdx, \disp
  .elseif \row == 7
    \op \vec, \to, rdx+r11, \disp
  .elseif \row == 8
    \op \vec, \to, rdx+r11*2, \disp
  .elseif \row == 9
    \op \vec, \to, rbp, \disp
  .elseif \row == 10
    \op \vec, \to, rbp+r11, \disp
  .elseif \row == 11
    \op \vec, \to, rbp+r11*2, \disp
  .elseif \row == 12
    \op \vec, \to, r12, \disp
  .else
    \op \vec, \to, r12+r11, \disp
  .endif
.endm

// adjoining: A's rows are a vector long, and lie behind one another.
.macro broadcast_row vec, bytes, adjoining, to, row, disp
  .if \adjoining
    vbroadcastss \vec\to, [rax + \row * \bytes + \disp]
  .else
    with_row broadcast, \vec, \to, \row, \disp
  .endif
.endm

// Adds step `i` behind the pointers to every sum.
.macro step vec, bytes, rows, vectors, registers, adjoining, i
  .set b_, \rows * \vectors
  .if b_ + \vectors < \registers
    .set a_, b_ + \vectors
    .set v_, 0
    .rept \vectors
      load \vec, %(b_ + v_), r10, %((\i * \vectors + v_) * \bytes)
      .set v_, v_ + 1
    .endr
    .set r_, 0
    .rept \rows
      broadcast_row \vec, \bytes, \adjoining, %(a_), %(r_), %(\i * 4)
      .set v_, 0
      .rept \vectors
        multiply_add \vec, %(r_ * \vectors + v_), %(a_), %(b_ + v_)
        .set v_, v_ + 1
      .endr
      .set r_, r_ + 1
    .endr
  .else  // too wide: A's values in registers, and one vector of B
    .set a_, b_ + 1
    .set r_, 0
    .rept \rows
      broadcast_row \vec, \bytes, \adjoining, %(a_ + r_), %(r_), %(\i * 4)
      .set r_, r_ + 1
    .endr
    .set v_, 0
    .rept \vectors
      load \vec, %(b_), r10, %((\i * \vectors + v_) * \bytes)
      .set r_, 0
      .rept \rows
        multiply_add \vec, %(r_ * \vectors + v_), %(a_ + r_), %(b_)
        .set r_, r_ + 1
      .endr
      .set v_, v_ + 1
    .endr
  .endif
.endm

// Reads ahead what belongs to two steps.
.macro read_ahead lines
  prefetcht1 [r14]
  .if \lines > 1
    prefetcht1 [r14 + r13]
  .endif
  add r14, r15
.endm

// `count` steps, an even number, and what is read ahead meanwhile.
.macro steps vec, bytes, rows, vectors, registers, lines, adjoining, count
  .set i_, 0
  .rept \count
    step \vec, \bytes, \rows, \vectors, \registers, \adjoining, %(i_)
    .if i_ % 2 == 1
      read_ahead \lines
    .endif
    .set i_, i_ + 1
  .endr
.endm

// The pointers of rows 3, 6, 9 and 12, as far as there are such rows, from rax and r11.
.macro point_rows rows
  .if \rows > 3
    lea rbx, [rax + r11 * 2]
    add rbx, r11
  .endif
  .if \rows > 6
    lea rdx, [rbx + r11 * 2]
    add rdx, r11
  .endif
  .if \rows > 9
    lea rbp, [rdx + r11 * 2]
    add rbp, r11
  .endif
  .if \rows > 12
    lea r12, [rbp + r11 * 2]
    add r12, r11
  .endif
.endm

.macro advance_rows rows, by
  add rax, \by
  .if \rows > 3
    add rbx, \by
  .endif
  .if \rows > 6
    add rdx, \by
  .endif
  .if \rows > 9
    add rbp, \by
  .endif
  .if \rows > 12
    add r12, \by
  .endif
.endm

// r14, r13, r15: an even pace over all steps, at most `lines` lines in two of them. Without
// anything to read ahead B's first line is read again and again.
.macro pace_prefetch lines
  mov r14, [rdi + field_b]
  xor r13d, r13d
  xor r15d, r15d
  mov rax, [rdi + field_prefetch_end]
  sub rax, [rdi + field_prefetch]
  jle 1f
  sar rax, 2
  movsxd rcx, dword ptr [rdi + field_groups]
  dec rcx
  movsxd rdx, dword ptr [rdi + field_steps]
  imul rcx, rdx
  movsxd rdx, dword ptr [rdi + field_last_steps]
  add rcx, rdx
  movsxd rdx, dword ptr [rdi + field_tap_count]
  imul rcx, rdx
  shr rcx, 1
  jz 1f
  mov r14, [rdi + field_prefetch]
  lea rax, [rax + rcx - 1]
  xor edx, edx
  div rcx
  mov r15d, 16 * \lines
  cmp rax, r15
  cmovl r15, rax
  .if \lines > 1
    mov eax, 64
    cmp r15d, 16
    cmovg r13d, eax
  .endif
  shl r15, 2
1:
.endm

// rax, rdx, rcx: c's or the residual's first row, and the bytes from it to its second and fourth
// vector.
.macro point_results field
  mov rax, [rdi + field_\field]
  mov rdx, [rdi + field_c_vector]
  shl rdx, 2
  lea rcx, [rdx + rdx * 2]
.endm

// Applies `op vec, sum, address, displacement` to every sum and its place.
.macro for_results op, vec, rows, vectors
  mov rbx, [rdi + field_c_row]
  .set r_, 0
  .rept \rows
    \op \vec, %(r_ * \vectors), rax, 0
    .if \vectors > 1
      \op \vec, %(r_ * \vectors + 1), rax+rdx, 0
    .endif
    .if \vectors > 2
      \op \vec, %(r_ * \vectors + 2), rax+rdx*2, 0
    .endif
    .if \vectors > 3
      \op \vec, %(r_ * \vectors + 3), rax+rcx, 0
    .endif
    .set r_, r_ + 1
    .if r_ < \rows
      lea rax, [rax + rbx * 4]
    .endif
  .endr
.endm

.macro add_residual vec, rows, vectors
  point_results residual
  for_results add_from, \vec, \rows, \vectors
.endm

// What the sums start from.
.macro start_sums vec, bytes, rows, vectors
  cmp byte ptr [rdi + field_accumulate], 0
  jne 3f
  mov rax, [rdi + field_bias]
  test rax, rax
  jz 2f
  .set v_, 0
  .rept \vectors
    load \vec, %(v_), rax, %(v_ * \bytes)
    .set r_, 1
    .rept \rows - 1
      copy \vec, %(r_ * \vectors + v_), %(v_)
      .set r_, r_ + 1
    .endr
    .set v_, v_ + 1
  .endr
  jmp 4f
2:
  .set v_, 0
  .rept \rows * \vectors
    clear %(v_)
    .set v_, v_ + 1
  .endr
  jmp 4f
3:
  point_results c
  for_results load, \vec, \rows, \vectors
4:
.endm

// The epilogue in registers, and the results to memory.
.macro finish_sums vec, rows, vectors
  .set bound_, \rows * \vectors
  cmp qword ptr [rdi + field_residual], 0
  je 1f
  cmp byte ptr [rdi + field_residual_after], 0
  jne 1f
  add_residual \vec, \rows, \vectors
1:
  cmp byte ptr [rdi + field_relu], 0
  je 2f
  clear %(bound_)
  .set v_, 0
  .rept \rows * \vectors
    at_least \vec, %(v_), %(bound_)
    .set v_, v_ + 1
  .endr
  jmp 3f
2:
  cmp byte ptr [rdi + field_clamp], 0
  je 3f
  set_bound \vec, %(bound_), lo
  .set v_, 0
  .rept \rows * \vectors
    at_least \vec, %(v_), %(bound_)
    .set v_, v_ + 1
  .endr
  set_bound \vec, %(bound_), hi
  .set v_, 0
  .rept \rows * \vectors
    at_most \vec, %(v_), %(bound_)
    .set v_, v_ + 1
  .endr
3:
  cmp qword ptr [rdi + field_residual], 0
  je 4f
  cmp byte ptr [rdi + field_residual_after], 0
  je 4f
  add_residual \vec, \rows, \vectors
4:
  point_results c
  for_results store, \vec, \rows, \vectors
.endm

.macro save register
  push \register
  .cfi_adjust_cfa_offset 8
  .cfi_rel_offset \register, 0
.endm
.macro restore register
  pop \register
  .cfi_adjust_cfa_offset -8
  .cfi_restore \register
.endm

// Maps blocked by channels: a group has as many steps as a vector has lanes, so that rows, steps and
// B are constant displacements.
.macro reduce_adjoining vec, bytes, rows, vectors, registers, lines, unroll
  mov r8, [rdi + field_a]
  mov r9, [rdi + field_b]
  mov r11, [rdi + field_a_group]
  mov rbx, [rdi + field_b_group]
  shl r11, 2
  shl rbx, 2
  mov ebp, [rdi + field_groups]
  test ebp, ebp
  jle 15f
10:
  mov edx, [rdi + field_tap_count]
  mov rsi, [rdi + field_taps]
  test edx, edx
  jle 14f
  cmp ebp, 1
  je 11f
  // The next group lies far from this one, where no hardware expects it: without this all rows
  // miss L1 at its first step.
  mov rax, [rsi]
  lea rax, [r8 + rax * 4]
  add rax, r11
  .set at_, 0
  .rept (\rows * \bytes + 63) / 64
    fetch \vec, 0, rax, %(at_)
    .set at_, at_ + 64
  .endr
  .if \rows * \bytes % 64 == 0
    fetch \vec, 0, rax, %(\rows * \bytes - 4)  // rows may begin within a line
  .endif
  .p2align 5
11:
  mov rax, [rsi]
  mov r10, [rsi + 8]
  lea rax, [r8 + rax * 4]
  lea r10, [r9 + r10 * 4]
  .if \unroll * 4 == \bytes
    steps \vec, \bytes, \rows, \vectors, \registers, \lines, 1, \unroll
  .else
    mov ecx, \bytes / 4 / \unroll
    .p2align 5
12:
    steps \vec, \bytes, \rows, \vectors, \registers, \lines, 1, \unroll
    add rax, \unroll * 4
    add r10, \unroll * \vectors * \bytes
    dec ecx
    jnz 12b
  .endif
  add rsi, 16
  dec edx
  jnz 11b
14:
  add r8, r11
  add r9, rbx
  dec ebp
  jnz 10b
15:
.endm

// Any A.
.macro reduce_strided vec, bytes, rows, vectors, registers, lines, unroll
  mov r8, [rdi + field_a]
  mov r9, [rdi + field_b]
  mov r11, [rdi + field_a_row]
  shl r11, 2
  mov ecx, [rdi + field_groups]
  mov [rsp], rcx
  test ecx, ecx
  jle 27f
  cmp dword ptr [rdi + field_steps], 1
  jne 20f
  cmp dword ptr [rdi + field_tap_count], 1
  jne 20f
  // A lies row by row within a step: one loop instead of three.
  mov rsi, [rdi + field_taps]
  mov rax, [rsi]
  mov r10, [rsi + 8]
  lea rax, [r8 + rax * 4]
  lea r10, [r9 + r10 * 4]
  point_rows \rows
  mov r8, [rdi + field_a_group]
  mov r9, [rdi + field_b_group]
  shl r8, 2
  shl r9, 2
  .p2align 5
18:
  step \vec, \bytes, \rows, \vectors, \registers, 0, 0
  advance_rows \rows, r8
  add r10, r9
  dec ecx
  jnz 18b
  jmp 27f
20:
  mov eax, [rdi + field_tap_count]
  mov rsi, [rdi + field_taps]
  mov [rsp + 8], rax
  test eax, eax
  jle 26f
  cmp qword ptr [rsp], 1
  je 21f
  mov rax, [rdi + field_a_group]
  add rax, [rsi]
  lea rax, [r8 + rax * 4]
  point_rows \rows
  .set r_, 0
  .rept \rows
    with_row fetch, \vec, 0, %(r_), 0
    .set r_, r_ + 1
  .endr
21:
  mov rax, [rsi]
  mov r10, [rsi + 8]
  lea rax, [r8 + rax * 4]
  lea r10, [r9 + r10 * 4]
  point_rows \rows
  mov ecx, [rdi + field_steps]
  cmp qword ptr [rsp], 1
  cmove ecx, [rdi + field_last_steps]
  sub ecx, \unroll
  jl 23f
  .p2align 5
22:
  steps \vec, \bytes, \rows, \vectors, \registers, \lines, 0, \unroll
  advance_rows \rows, \unroll*4
  add r10, \unroll * \vectors * \bytes
  sub ecx, \unroll
  jge 22b
23:
  add ecx, \unroll
  jz 25f
  .p2align 4
24:
  step \vec, \bytes, \rows, \vectors, \registers, 0, 0
  advance_rows \rows, 4
  add r10, \vectors * \bytes
  dec ecx
  jnz 24b
25:
  add rsi, 16
  dec dword ptr [rsp + 8]
  jnz 21b
26:
  mov rax, [rdi + field_a_group]
  mov rcx, [rdi + field_b_group]
  lea r8, [r8 + rax * 4]
  lea r9, [r9 + rcx * 4]
  dec qword ptr [rsp]
  jnz 20b
27:
.endm

.macro tile isa, vec, bytes, registers, lines, unroll, vectors, rows
  .p2align 5
  .type tile_\isa\()_\rows\()x\vectors, @function
tile_\isa\()_\rows\()x\vectors:
  .cfi_startproc
  _CET_ENDBR
  save rbx
  save rbp
  save r12
  save r13
  save r14
  save r15
  sub rsp, 24
  .cfi_adjust_cfa_offset 24
  // Lines of 16 floats; requests for shorter vectors would cost more than they hide.
  .if \bytes == 64
    cmp byte ptr [rdi + field_far_results], 0
    je 6f
    point_results c
    for_results fetch, \vec, \rows, \vectors
    cmp qword ptr [rdi + field_residual], 0
    je 6f
    point_results residual
    for_results fetch, \vec, \rows, \vectors
6:
  .endif
  start_sums \vec, \bytes, \rows, \vectors
  pace_prefetch \lines
  cmp qword ptr [rdi + field_a_row], \bytes / 4
  jne 7f
  cmp dword ptr [rdi + field_steps], \bytes / 4
  jne 7f
  cmp dword ptr [rdi + field_last_steps], \bytes / 4
  jne 7f
  reduce_adjoining \vec, \bytes, \rows, \vectors, \registers, \lines, \unroll
  jmp 8f
7:
  reduce_strided \vec, \bytes, \rows, \vectors, \registers, \lines, \unroll
8:
  finish_sums \vec, \rows, \vectors
  vzeroupper
  add rsp, 24
  .cfi_adjust_cfa_offset -24
  restore r15
  restore r14
  restore r13
  restore r12
  restore rbp
  restore rbx
  ret
  .cfi_endproc
  .size tile_\isa\()_\rows\()x\vectors, . - tile_\isa\()_\rows\()x\vectors
.endm

.macro entry isa, vectors, rows
  .quad tile_\isa\()_\rows\()x\vectors
.endm

// All tiles of `vectors` vectors, up to `most` rows; a row of TileSet::run.
.macro tiles isa, vec, bytes, registers, lines, unroll, vectors, most
  .set rows_, 1
  .rept \most
    tile \isa, \vec, \bytes, \registers, \lines, \unroll, \vectors, %(rows_)
    .set rows_, rows_ + 1
  .endr
  .pushsection .data.rel.ro, "aw", @progbits
  .quad 0
  .set rows_, 1
  .rept \most
    entry \isa, \vectors, %(rows_)
    .set rows_, rows_ + 1
  .endr
  .rept STRETTO_TILE_MOST_ROWS - \most
    .quad 0
  .endr
  .popsection
.endm

// A table of all tiles, [vectors][rows].
.macro table name
  .pushsection .data.rel.ro, "aw", @progbits
  .p2align 5
  .globl \name
  .hidden \name
  .type \name, @object
\name:
  .skip 8 * (STRETTO_TILE_MOST_ROWS + 1)
  .popsection
.endm

  table stretto_tiles_avx2
  tiles avx2, ymm, 32, 16, 1, 8, 1, 12
  tiles avx2, ymm, 32, 16, 1, 8, 2, 6
  tiles avx2, ymm, 32, 16, 1, 8, 3, 4
  tiles avx2, ymm, 32, 16, 1, 8, 4, 3

  table stretto_tiles_avx512
  tiles avx512, zmm, 64, 32, 2, 4, 1, 14
  tiles avx512, zmm, 64, 32, 2, 4, 2, 14
  tiles avx512, zmm, 64, 32, 2, 4, 3, 9
  tiles avx512, zmm, 64, 32, 2, 4, 4, 6

#endif

  .section .note.GNU-stack, "", @progbits

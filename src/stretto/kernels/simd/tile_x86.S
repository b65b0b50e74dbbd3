// The register tiles of AVX2 and AVX-512: every instance of
//
//   void tile(const Tile& t)                                       (System V: t in rdi)
//
// that TileSet::run lists, as described in tile.h. Assembly, because GCC spends as long on the
// bookkeeping of a short group of steps as on a quarter of its multiply-adds
// (docs/design/speed.md). The macros are a generator: the assembler expands one text to all shapes.
//
// Vector registers: sums [row][vector] first, then a step's vectors of B, then a value of A.
// General registers in the loops:
//   rdi  the Tile                    r10  B of this step
//   r8   A of the group              r14  what is read ahead next
//   r9   B of the group              r13  from there to the second line
//   rsi  the next tap                r15  its pace
//                reduce_adjoining                         reduce_strided
//   rax          A of this tap                            row 0 of A
//   rbx rdx      B from group to group, taps left         rows 3 and 6
//   rbp r12      groups left, -                           rows 9 and 12
//   r11          A from group to group, in bytes          A from row to row, in bytes
//   rcx          steps left                               steps left
//   [rsp]        -                                        groups left, taps left
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

#include "stretto/kernels/simd/tile_steps_x86.inc"
#include "stretto/kernels/simd/tile_sums_x86.inc"

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

// Maps blocked by channels: a group has as many steps as a vector has lanes, so that rows, steps
// and B are constant displacements.
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

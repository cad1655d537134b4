"""System call numbers by name, for the processors we run on.

Every call that a policy allows, that a layer uses, or that a test tries; anything else is refused by its absence.
"""

from __future__ import annotations

import platform
from functools import cache

HIGHEST = 467
"""The highest number assigned when this table was written. Calls beyond it get ENOSYS, as on a kernel of that time."""

_TABLE = """
read 0 63
write 1 64
open 2 -
close 3 57
stat 4 -
fstat 5 80
lstat 6 -
poll 7 -
lseek 8 62
mmap 9 222
mprotect 10 226
munmap 11 215
brk 12 214
rt_sigaction 13 134
rt_sigprocmask 14 135
rt_sigreturn 15 139
ioctl 16 29
pread64 17 67
pwrite64 18 68
readv 19 65
writev 20 66
access 21 -
pipe 22 -
select 23 -
sched_yield 24 124
mremap 25 216
msync 26 227
mincore 27 232
madvise 28 233
shmget 29 194
dup 32 23
dup2 33 -
pause 34 -
nanosleep 35 101
getitimer 36 102
alarm 37 -
setitimer 38 103
getpid 39 172
sendfile 40 71
socket 41 198
connect 42 203
accept 43 202
sendto 44 206
recvfrom 45 207
sendmsg 46 211
recvmsg 47 212
shutdown 48 210
bind 49 200
listen 50 201
getsockname 51 204
getpeername 52 205
socketpair 53 199
setsockopt 54 208
getsockopt 55 209
clone 56 220
fork 57 -
vfork 58 -
execve 59 221
exit 60 93
wait4 61 260
kill 62 129
uname 63 160
semget 64 190
msgget 68 186
fcntl 72 25
flock 73 32
fsync 74 82
fdatasync 75 83
truncate 76 45
ftruncate 77 46
getdents 78 -
getcwd 79 17
chdir 80 49
fchdir 81 50
rename 82 -
mkdir 83 -
rmdir 84 -
creat 85 -
link 86 -
unlink 87 -
symlink 88 -
readlink 89 -
chmod 90 -
fchmod 91 52
chown 92 -
fchown 93 55
lchown 94 -
umask 95 166
gettimeofday 96 169
getrlimit 97 163
getrusage 98 165
sysinfo 99 179
times 100 153
ptrace 101 117
getuid 102 174
syslog 103 116
getgid 104 176
setuid 105 146
setgid 106 144
geteuid 107 175
getegid 108 177
setpgid 109 154
getppid 110 173
getpgrp 111 -
setsid 112 157
getgroups 115 158
setgroups 116 159
setresuid 117 147
getresuid 118 148
setresgid 119 149
getresgid 120 150
getpgid 121 155
getsid 124 156
capget 125 90
capset 126 91
rt_sigpending 127 136
rt_sigtimedwait 128 137
rt_sigqueueinfo 129 138
rt_sigsuspend 130 133
sigaltstack 131 132
utime 132 -
mknod 133 -
personality 135 92
statfs 137 43
fstatfs 138 44
getpriority 140 141
setpriority 141 140
sched_getparam 143 121
sched_setscheduler 144 119
sched_getscheduler 145 120
sched_get_priority_max 146 125
sched_get_priority_min 147 126
modify_ldt 154 -
pivot_root 155 41
prctl 157 167
arch_prctl 158 -
setrlimit 160 164
chroot 161 51
acct 163 89
mount 165 40
umount2 166 39
swapon 167 224
reboot 169 142
sethostname 170 161
iopl 172 -
ioperm 173 -
init_module 175 105
quotactl 179 60
gettid 186 178
readahead 187 213
setxattr 188 5
tkill 200 130
time 201 -
futex 202 98
sched_setaffinity 203 122
sched_getaffinity 204 123
epoll_create 213 -
getdents64 217 61
set_tid_address 218 96
restart_syscall 219 128
fadvise64 221 223
timer_create 222 107
clock_gettime 228 113
clock_getres 229 114
clock_nanosleep 230 115
exit_group 231 94
epoll_wait 232 -
epoll_ctl 233 21
tgkill 234 131
utimes 235 -
mbind 237 235
mq_open 240 180
kexec_load 246 104
waitid 247 95
add_key 248 217
request_key 249 218
keyctl 250 219
migrate_pages 256 238
openat 257 56
mkdirat 258 34
mknodat 259 33
fchownat 260 54
futimesat 261 -
newfstatat 262 79
unlinkat 263 35
renameat 264 38
linkat 265 37
symlinkat 266 36
readlinkat 267 78
fchmodat 268 53
faccessat 269 48
pselect6 270 72
ppoll 271 73
unshare 272 97
set_robust_list 273 99
get_robust_list 274 100
splice 275 76
sync_file_range 277 84
move_pages 279 239
utimensat 280 88
epoll_pwait 281 22
eventfd 284 -
fallocate 285 47
accept4 288 242
eventfd2 290 19
epoll_create1 291 20
dup3 292 24
pipe2 293 59
preadv 295 69
pwritev 296 70
rt_tgsigqueueinfo 297 240
perf_event_open 298 241
recvmmsg 299 243
fanotify_init 300 262
prlimit64 302 261
name_to_handle_at 303 264
open_by_handle_at 304 265
sendmmsg 307 269
setns 308 268
getcpu 309 168
process_vm_readv 310 270
process_vm_writev 311 271
kcmp 312 272
finit_module 313 273
sched_setattr 314 274
renameat2 316 276
seccomp 317 277
getrandom 318 278
memfd_create 319 279
bpf 321 280
execveat 322 281
userfaultfd 323 282
membarrier 324 283
copy_file_range 326 285
preadv2 327 286
pwritev2 328 287
statx 332 291
rseq 334 293
pidfd_send_signal 424 424
io_uring_setup 425 425
io_uring_enter 426 426
io_uring_register 427 427
open_tree 428 428
move_mount 429 429
pidfd_open 434 434
clone3 435 435
close_range 436 436
openat2 437 437
pidfd_getfd 438 438
faccessat2 439 439
process_madvise 440 440
epoll_pwait2 441 441
mount_setattr 442 442
landlock_create_ruleset 444 444
landlock_add_rule 445 445
landlock_restrict_self 446 446
memfd_secret 447 447
futex_waitv 449 449
fchmodat2 452 452
map_shadow_stack 453 453
mseal 462 462
"""
"""A line a call: name, number on x86_64, number on aarch64."""


@cache
def numbers(machine: str) -> dict[str, int]:
    """Name -> number on ``machine``, of the calls that exist there.

    Raises:
        ValueError: a processor without a table.
    """
    column = {"x86_64": 1, "aarch64": 2}.get(machine)
    if column is None:
        raise ValueError(f"no system call table for {machine!r} processors (there is one for x86_64 and aarch64)")
    rows = (line.split() for line in _TABLE.split("\n") if line)
    return {row[0]: int(row[column]) for row in rows if row[column] != "-"}


def here() -> dict[str, int]:
    """The table of this machine."""
    return numbers(platform.machine())

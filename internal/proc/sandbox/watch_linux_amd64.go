package sandbox

import "golang.org/x/sys/unix"

// watchedHere are older variants of the watched calls, which this architecture has.
var watchedHere = map[uint32][]operand{
	unix.SYS_OPEN:     {{dir: -1, path: 0, use: opens, flags: 1}},
	unix.SYS_CREAT:    {{dir: -1, path: 0, use: replaces}},
	unix.SYS_MKDIR:    {{dir: -1, path: 0, use: makes}},
	unix.SYS_MKNOD:    {{dir: -1, path: 0, use: replaces}},
	unix.SYS_RMDIR:    {{dir: -1, path: 0, use: replaces}},
	unix.SYS_UNLINK:   {{dir: -1, path: 0, use: replaces}},
	unix.SYS_SYMLINK:  {{dir: -1, path: 1, use: replaces}},
	unix.SYS_LINK:     {{dir: -1, path: 0, use: replaces}, {dir: -1, path: 1, use: replaces}},
	unix.SYS_RENAME:   {{dir: -1, path: 0, use: replaces}, {dir: -1, path: 1, use: replaces}},
	unix.SYS_RENAMEAT: {{dir: 0, path: 1, use: replaces}, {dir: 2, path: 3, use: replaces}},
}

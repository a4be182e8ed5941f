package sandbox

import "golang.org/x/sys/unix"

// watchedHere are older variants of the watched calls, which this architecture has.
var watchedHere = map[uint32][]operand{
	unix.SYS_RENAMEAT: {{dir: 0, path: 1, use: replaces}, {dir: 2, path: 3, use: replaces}},
}

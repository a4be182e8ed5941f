// Package confine takes from a thread, and from what it starts, what a child must not have: privileges,
// files and system calls. Nothing gives them back.
//
// It imports little, because the init of a pid namespace runs before the other packages of a program are
// initialised.
package confine

// Rules are what the programs that a thread starts may touch.
type Rules struct {
	Files    []Rule
	Writes   bool // they may change files at all
	Internet bool // they may open internet sockets, which a network namespace bounds
}

// Rule allows the files at and below Path.
type Rule struct {
	Path    string
	Write   bool
	Links   bool // symbolic links in Path are followed: those of the system, which no extension makes
	Program bool // only a file that can be run: the extension may have put another there
}

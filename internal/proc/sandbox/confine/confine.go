// Package confine restricts the privileges, files and system calls of a thread and of the processes that it starts. The
// restrictions cannot be undone.
//
// It imports little, because the init of a pid namespace runs before the other packages of a program are initialised.
package confine

// Rules state what the programs started by a thread may access.
type Rules struct {
	Files    []Rule
	Writes   bool // whether they may write any file
	Internet bool // whether they may open internet sockets, which lead no further than the network namespace
}

// Rule allows the files at and below Path.
type Rule struct {
	Path    string
	Write   bool
	Links   bool // follow symbolic links in Path; only for system paths, which no extension can replace
	Program bool // allow Path only if it is an executable file, because the extension may have replaced it
}

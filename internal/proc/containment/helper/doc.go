// Package helper implements the helper processes of a host: the guardian, which outlives the host and kills whatever
// its children leave behind, and the init of a child's pid namespace. Both are this program, run again under the names
// [GuardianName] and [InitName].
//
// They run in init functions and do not wait for main: the packages of a host would leave a guardian with five times
// the memory that it needs, and take five times as long to initialise as an init needs to start its child. Go
// initialises a package as soon as its imports are, so this one imports little.
package helper

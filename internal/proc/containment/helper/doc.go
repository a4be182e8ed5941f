// Package helper implements the helper processes of a host: the guardian, which outlives the host and kills whatever
// its children leave behind, and the init of a child's pid namespace. Both are this program, run again under the names
// [GuardianName] and [InitName].
//
// Both run in init functions of this package and do not wait for main. Otherwise the packages of a
// host would be initialised first: a guardian would keep five times the memory that it needs, and
// an init would start its child after five times the time. Go initialises a package as soon as its
// imports are initialised, so this package imports little.
package helper

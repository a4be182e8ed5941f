// Package house has the tests of the architecture: which package may import which, and the rules for the code as a
// whole.
package house

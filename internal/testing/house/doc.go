// Package house has the tests of the architecture: which package may import which, and what the code as a whole keeps
// to.
package house

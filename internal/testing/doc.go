// Package testing has what tests of several packages share.
package testing

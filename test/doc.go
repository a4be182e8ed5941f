// Package test has the tests that open a host. The names of its files begin with their area.
package test

// Package file groups helpers for files: replacing, rotating, locking, and checking who may change them.
package file

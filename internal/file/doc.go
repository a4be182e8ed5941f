// Package file has functions of files: replacing, rotating, locking, and who may change one.
package file

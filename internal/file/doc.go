// Package file replaces files in one step, opens only regular ones, bounds the size of logs, locks directories, and
// keeps paths below a directory. Below it, ownership tells who may change a file.
package file

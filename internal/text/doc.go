// Package text groups packages that work on text: strict decoding of files, raw JSON edits, patterns, masking of
// secrets.
package text

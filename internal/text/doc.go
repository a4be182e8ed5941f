// Package text has functions of texts: decoding files strictly, editing JSON, patterns, words, and the masking of
// secrets.
package text

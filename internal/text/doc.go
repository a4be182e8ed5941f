// Package text has helpers for words and lines: the nearest known word, the words of a shell's line, names as ids, and
// literals of TOML, YAML and JSON. The packages below it decode files strictly, edit raw JSON, match patterns and mask
// secrets.
package text

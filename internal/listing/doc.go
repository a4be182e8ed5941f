// Package listing has what clients see of tools, prompts and resources: under which names, which of them are listed,
// how they are found by words, and which extension has one.
package listing

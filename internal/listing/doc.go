// Package listing decides what clients see of tools, prompts and resources: names, lists, search, and the owner
// of each.
package listing

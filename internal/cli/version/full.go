//go:build !slim

package version

// slim says that this build leaves out its largest parts: see docs/install.md.
const slim = false

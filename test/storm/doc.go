// Package storm has tests that run many things at once, kill some of them, and measure. EXTHOST_STORM=1 gives them
// their full size.
package storm

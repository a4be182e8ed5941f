// Package tools names, validates and lists the tools of all extensions, and
// exports their schemas to model vendors. It calls nothing.
//
// A [Catalog] is built once per generation of the host from what the extensions
// offered ([Source]) and never changes afterwards, so it is read without locks:
//
//	catalog, diagnostics := tools.NewCatalog(7, sources, previous)
//	entry, ok := catalog.Lookup("ext_weather_forecast")
//	err := entry.Validate(arguments) // nil, or an error a model can act on
//
// # Names
//
// A tool is registered as ext_{extension}_{tool}, with every character outside
// [A-Za-z0-9_-] replaced by an underscore. A name that would be longer than 64
// bytes, or that an earlier tool has, is cut and ends in eight hex digits of a
// hash of the original pair. Names are undone by [Catalog.Lookup] only; parsing
// them is wrong, because extensions and tools may hold underscores themselves.
//
// # What is left out
//
// A descriptor that cannot be used (see [Check]) costs the extension that one
// tool; a schema that cannot be compiled costs the tool its validation; a schema
// that a vendor would refuse costs the tool its place in that vendor's export.
// Each comes with a diagnostic or an [Omission]; nothing disappears silently.
package tools

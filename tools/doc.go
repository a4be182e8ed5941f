// Package tools names, validates and lists the tools of all extensions, and exports their
// schemas in the formats of model vendors. It does not call tools.
//
// A [Catalog] is built from the tools that the extensions offer ([Source]). It is
// immutable, so it is read without locks:
//
//	catalog, diagnostics := tools.NewCatalog(7, sources, previous)
//	entry, ok := catalog.Lookup("ext_weather_forecast")
//	err := entry.Validate(arguments) // nil, or an error a model can act on
//
// # Names
//
// A tool is registered as ext_{extension}_{tool}, with every character outside
// [A-Za-z0-9_-] replaced by an underscore. A name longer than 64 bytes, or one that an
// earlier tool has, is shortened and ends in eight hex digits of a hash of the original
// pair. Use [Catalog.Lookup] to find the original names: a registered name cannot be
// parsed, because extensions and tools may contain underscores themselves.
//
// # Invalid tools
//
// A tool whose descriptor is invalid (see [Check]) is dropped. A tool whose schema does not
// compile is not validated. A tool whose schema a vendor would refuse is left out of that
// vendor's export. A diagnostic or an [Omission] reports each of these cases.
package tools

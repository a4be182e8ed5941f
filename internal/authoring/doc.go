// Package authoring holds what helps the author of an extension: checks, templates and the bundled extensions.
package authoring

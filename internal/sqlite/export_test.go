package sqlite

// During is for the tests.
var During = during

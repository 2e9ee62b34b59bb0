module plantstore/docs/test

go 1.26.0

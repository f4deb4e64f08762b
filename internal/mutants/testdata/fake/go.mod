module example.test/fake

go 1.26

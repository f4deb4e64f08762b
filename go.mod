module github.com/ibid-go/ibid

go 1.26

SELECT WRITE_NAME($1, $2, $3, $4, $5, $6, $7)

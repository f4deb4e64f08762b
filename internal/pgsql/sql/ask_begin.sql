SELECT ANSWER_COLUMNS, r.due FROM BEGIN_NAME($1, $2, $3, $4, $5, $6, $7, $8, $9) r

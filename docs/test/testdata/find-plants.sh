. ./server.sh
cat > /var/lib/plantstore/plants.csv <<'END'
id,name,tag
101,Acer campestre,tree
102,Acer Rubrum,tree
103,Weiße Rose,shrub
104,水仙,
END
runuser -u plantstore -- plantstore import /var/lib/plantstore/plants.csv --db /var/lib/plantstore/plantstore.db
